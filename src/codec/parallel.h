/*
 * Encodes or decodes the blocks of one chunk with several threads: the caller, and those workers of
 * a pool that are free. The result is byte for byte that of a single thread.
 *
 * A `parallel` serves one call at a time; each calling thread opens its own. The caller may itself
 * be a worker, since it never waits for a worker to become free: it does any block not taken yet,
 * and waits only for blocks in progress.
 */
#ifndef CODEC_PARALLEL_H
#define CODEC_PARALLEL_H

#include "base/pool.h"
#include "codec/chunk.h"

struct parallel;

/* Returns the scratch of the calling thread; NULL: out of memory. */
typedef struct scratch *parallel_scratch_fn(void);

NODISCARD int parallel_open(struct parallel **p, struct pool *pool, parallel_scratch_fn *scratch);

/* Waits until no worker uses *p any more. Call it before pool_close. NULL is fine. */
void parallel_close(struct parallel *p);

/*
 * As chunk_decode, for programs that have a chunk in memory; the daemon decodes in parallel by
 * request instead. Chunks with delta are decoded by one thread, unless chunk_load_ref was called.
 */
NODISCARD int parallel_decode(struct parallel *p, const struct chunk *c, struct run run,
			      struct view stored, struct span dst);

/* A smaller chunk is encoded before another thread would wake up. */
#define PARALLEL_MIN (256u << 10)

/* As chunk_encode. With a dictionary in the pipeline, one thread does everything. */
NODISCARD int parallel_encode(struct parallel *p, const struct pipeline *pl, struct view src,
			      struct buf *out);

#endif
