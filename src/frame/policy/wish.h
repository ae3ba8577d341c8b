/*
 * Wishes for how a file is stored, which come before the settings: extended attributes of the file
 * or its directory, or a rule for its name (rules.h).
 *
 *   user.cframefs.pipeline   shuffle:4+zstd:3       user.cframefs.chunksize   4M
 *   user.cframefs.tune       size                   user.cframefs.blocksize   16K
 *
 * The attributes are stored on the backing file or directory. A new file or directory inherits
 * those of its directory. Of several wishes for the same thing the first of these counts: the
 * file's attribute (its own, or that of its directory when it was made), a rule, the mount's
 * option. Where one names a pipeline, nothing is chosen by looking at the data.
 */
#ifndef FRAME_POLICY_WISH_H
#define FRAME_POLICY_WISH_H

#include "frame/policy/settings.h"

/* With this begin the names of all attributes that are ours, not just of these four. */
#define WISH_PREFIX "user.cframefs."

struct wish {
	bool has_pipeline, has_tune;
	bool own; /* from attributes of the file: they apply even if it has data already */
	struct pipeline pipeline;
	enum settings_tune tune;
	uint64_t chunksize, blocksize; /* 0: none */
};

/* "pipeline" of "user.cframefs.pipeline" if it is one of the four; NULL: it is not. */
const char *wish_word(const char *attribute);

/* Sets what `word` names from its text. -EINVAL: `why` has the reason, a phrase for the user. */
NODISCARD int wish_set(struct wish *w, const char *word, const char *value, struct err_reason *why);

/* Adds the attributes of a backing file or directory. Wrong values are ignored. */
void wish_load(struct wish *w, int fd);

/* Copies them from a directory to a file or directory that was made in it. Failures are ignored. */
void wish_inherit(int from, int to);

/* The settings, overridden by the wishes. Borrows the rules. */
struct settings wish_apply(const struct settings *all, const struct wish *w);

#endif
