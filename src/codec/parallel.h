/*
 * The blocks of one chunk encoded or decoded by several threads: the one that
 * asks, and workers of a pool that are free. The bytes are those that one thread
 * alone would make.
 *
 * A `parallel` serves one call at a time; each thread that asks opens its own. The caller
 * never waits for a worker to become free, so that it may be a worker itself: it
 * does what nobody has taken, and waits only for blocks that are being worked on.
 */
#ifndef CODEC_PARALLEL_H
#define CODEC_PARALLEL_H

#include "base/pool.h"
#include "codec/chunk.h"

struct parallel;

/* The scratch of the thread that calls it; NULL without memory. */
typedef struct scratch *parallel_scratch_fn(void);

NODISCARD int parallel_open(struct parallel **p, struct pool *pool, parallel_scratch_fn *scratch);

/* Before pool_close; waits until the workers have let go of *p. NULL is fine. */
void parallel_close(struct parallel *p);

/* As chunk_decode. With delta all by one thread, unless chunk_load_ref was called. */
NODISCARD int parallel_decode(struct parallel *p, const struct chunk *c, struct run run,
			      struct view stored, struct span dst);

/* As chunk_encode; by one thread when the pipeline asks for a dictionary. */
NODISCARD int parallel_encode(struct parallel *p, const struct pipeline *pl, struct view src,
			      struct buf *out);

#endif
