/* What a thread needs to encode or decode chunks. Each of a pool has its own until it ends. */
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include "base/pool.h"
#include "codec/parallel.h"

struct workbench {
	struct scratch *s;
	struct parallel *parallel; /* NULL: not needed so far */
	struct buf b;              /* a stored chunk, or a piece of a decoded one */
};

/*
 * How many files can be on their way at a time, at least 1 and at most FILES_MAX, as far as
 * descriptors go, while one thread walks through a tree and is so deep in it.
 */
#define FILES_MAX 512
unsigned workbench_files(unsigned depth);

/*
 * Opens a pool of n threads that have workbenches, or of fewer where the system gives no more, or
 * of none: then the jobs are for who submits them. Where the address space is limited there are so
 * many that `each` bytes for each fit. One pool at a time. NULL is fine to close; who has opened a
 * pool closes it.
 */
#define WORKBENCH_SPACE (9u << 20) /* of a thread: all but chunks */
NODISCARD int workbenches_open(struct pool **pool, unsigned n, uint64_t each);
void workbenches_close(struct pool *pool);

/* That of the calling thread; NULL: out of memory. */
struct workbench *workbench_get(void);

/* Frees what only a large chunk needed: of the calling thread, if it has one. */
void workbench_trim(void);

/*
 * Encodes a chunk into b->b. `pool`: the one that this thread belongs to; if no job waits
 * there, its threads share the blocks. NULL: they have other work.
 */
NODISCARD int workbench_encode(struct workbench *b, struct pool *pool, const struct pipeline *p,
			       struct view plain);

#endif
