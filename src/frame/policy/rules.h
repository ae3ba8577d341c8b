/*
 * Rules: wishes (wish.h) for all files whose names match a pattern, from a small file that is read
 * once. Each line is a pattern and words; the first line that matches a name counts.
 *
 *   *.fits   shuffle:4+zstd:3
 *   *.idx    zstd:3 blocksize=16K      # words: a pipeline, chunksize=, blocksize=, tune=
 */
#ifndef FRAME_POLICY_RULES_H
#define FRAME_POLICY_RULES_H

#include "frame/policy/wish.h"

struct rules;

/*
 * Reads the file; rules_free frees the rules. -EINVAL: a line is wrong, and `why` says which, and
 * why. Any other failure except -ENOMEM: the file could not be read, and `why` says so.
 */
NODISCARD int rules_read(struct rules **r, const char *file, struct option_why *why);
void rules_free(struct rules *r);

/*
 * Sets *w to the first rule that matches the name; leaves it alone if there is none. `r` may be
 * NULL.
 */
void rules_match(const struct rules *r, const char *name, struct wish *w);

#endif
