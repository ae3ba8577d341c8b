/* Writes the content of frames, and of other files, to new files. */
#ifndef UNPACK_H
#define UNPACK_H

#include "base/pool.h"
#include "frame/frame.h"

/*
 * Writes the content of an open frame, or of its array as an .npy file, to the empty file `out`.
 * The workers of the pool, to which the caller belongs, share its chunks; each has a workbench.
 * *lost: how many bytes are damaged or cannot be read; they are zeros in `out`. NULL: any such byte
 * is a failure.
 */
NODISCARD int unpack_frame(struct frame *f, bool array, struct pool *pool, int out,
			   uint64_t *lost);

/* Copies a file to the empty file `out`. Holes stay holes. */
NODISCARD int unpack_plain(int in, int out);

#endif
