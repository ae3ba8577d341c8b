/*
 * Wishes for how a file is stored, which come before the settings: extended attributes of the file
 * or its directory, or a rule for its name (rules.h).
 *
 *   user.cframefs.pipeline   shuffle:4+zstd:3       user.cframefs.chunksize   4M
 *   user.cframefs.tune       size                   user.cframefs.blocksize   16K
 *
 * The attributes are stored on the backing file or directory. A new file or directory inherits
 * those of its directory. If there are several for the same thing, precedence is: the file's
 * attribute (its own, or that of its directory when it was created), a rule, the mount's option. If
 * one names a pipeline, nothing is chosen by looking at the data.
 */
#ifndef FRAME_POLICY_WISH_H
#define FRAME_POLICY_WISH_H

#include "frame/policy/settings.h"

/* The prefix of all our attributes, not just of these four. */
#define WISH_PREFIX "user.cframefs."

struct wish {
	bool has_pipeline, has_tune;
	bool own; /* some are from attributes of the file */
	bool own_pipeline, own_blocksize; /* pipeline or tune; block size: even if it has data */
	struct pipeline pipeline;
	enum settings_tune tune;
	uint64_t chunksize, blocksize; /* 0: none */
};

/* "pipeline" for "user.cframefs.pipeline"; NULL: not one of the four. */
const char *wish_word(const char *attribute);

/* Sets what `word` names from its text. -EINVAL: `why` is a phrase for the user. */
NODISCARD int wish_set(struct wish *w, const char *word, const char *value, struct err_reason *why);

/* Adds the attributes of a backing file or directory. Wrong values are ignored. */
void wish_load(struct wish *w, int fd);

/* Copies them from a directory to a file or directory created in it. Failures are ignored. */
void wish_inherit(int from, int to);

/* The settings, overridden by the wishes. Borrows the rules. */
struct settings wish_apply(const struct settings *all, const struct wish *w);

#endif
