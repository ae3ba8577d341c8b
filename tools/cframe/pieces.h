/* The decoded bytes of a frame's chunks, in order. */
#ifndef PIECES_H
#define PIECES_H

#include "frame/frame.h"

#define PIECE (4u << 20) /* bytes that are held at once; more only for a larger block */

struct pieces {
	struct frame *f;
	struct scratch *s;
	struct buf b; /* the caller frees it */
	/*
	 * To find damage rather than to get the bytes: fail even where the damage does not affect
	 * us but would affect other readers; and do not decode chunks of one repeated value.
	 */
	bool strict;

	/* Takes bytes of chunk n, from `lo` on. Negative: stop. */
	int (*take)(void *arg, uint32_t n, uint32_t lo, struct view v);
	/*
	 * Called instead for bytes that are damaged or cannot be read: whole blocks, or all of a
	 * chunk. `rc` says why: -EBADMSG, -EIO, -ENOTSUP. NULL: such bytes are a failure.
	 */
	void (*lose)(void *arg, uint32_t n, uint32_t lo, uint32_t len, int rc);
	void *arg;
};

/*
 * Passes all bytes of chunk n to `take`; each block is decoded once, however large it is. Returns
 * the first failure, of reading or of `take`.
 */
NODISCARD int pieces_of_chunk(struct pieces *p, uint32_t n);

/*
 * Checks that a chunk in memory that is not among a frame's chunks, a metalayer, can be decoded.
 * `take` is not called.
 */
NODISCARD int pieces_check(struct pieces *p, struct view stored);

#endif
