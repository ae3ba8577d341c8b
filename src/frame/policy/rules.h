/*
 * Rules: wishes (wish.h) for all files whose names fit a pattern, out of a small file that is read
 * once. Each line is a pattern and words; the first line that fits a name counts.
 *
 *   *.fits   shuffle:4+zstd:3
 *   *.idx    zstd:3 blocksize=16K      # words: a pipeline, chunksize=, blocksize=, tune=
 */
#ifndef FRAME_POLICY_RULES_H
#define FRAME_POLICY_RULES_H

#include "frame/policy/wish.h"

struct rules;

/*
 * Reads them; rules_free frees them. -EINVAL: a line is wrong, and `why` says which, and why. Any
 * other failure but -ENOMEM: the file could not be read, and `why` says so.
 */
NODISCARD int rules_read(struct rules **r, const char *file, struct option_why *why);
void rules_free(struct rules *r);

/* Sets *w to the first rule that fits the name; leaves it if there is none. `r` may be NULL. */
void rules_match(const struct rules *r, const char *name, struct wish *w);

#endif
