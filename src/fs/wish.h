/*
 * What was asked for a file beside the options of the mount: by attributes of the file or its
 * directory, or by a rule for its name.
 *
 *   user.cframefs.pipeline   shuffle:4+zstd:3       user.cframefs.chunksize   4M
 *   user.cframefs.tune       size                   user.cframefs.blocksize   16K
 *
 * They are attributes of the backing file or directory. A new file or directory gets those
 * of its directory. Of two that name one thing the first of these wins: the file's attribute,
 * the directory's when the file was made, a rule, the mount's option. A pipeline beats the tuner.
 */
#ifndef FS_WISH_H
#define FS_WISH_H

#include "fs/options.h"

struct wish {
	bool has_pipeline, has_tune;
	/* the file's attributes say so: chunks of a file that has data, too */
	bool own;
	struct pipeline pipeline;
	enum options_tune tune;
	uint64_t chunksize, blocksize; /* 0: none */
};

/* "pipeline" of "user.cframefs.pipeline" if it is one of the four; NULL: it is not. */
const char *wish_word(const char *attribute);

/* Overwrites what `word` names. -EINVAL: `why` is a sentence for the user. */
NODISCARD int wish_set(struct wish *w, const char *word, const char *value, char *why, size_t room);

/*
 * Adds what the attributes of a backing file say, by its
 * /proc path; what is wrong there does not count.
 */
void wish_load(struct wish *w, const char *path);

/* Gives the attributes of a directory to what was made in it. */
void wish_inherit(const char *from, const char *to);

/* The options of the mount, and over them what is wished. */
struct options wish_apply(const struct options *mount, const struct wish *w);

/* Rules of a file, first match wins: lines of a pattern for names and words as above. */
struct rules;

/* On a wrong line: one line on stderr that names it, -EINVAL. */
NODISCARD int rules_read(struct rules **r, const char *file);
void rules_free(struct rules *r);

/* What the first rule for a name asks for; nothing when there is none. */
void rules_match(const struct rules *r, const char *name, struct wish *w);

#endif
