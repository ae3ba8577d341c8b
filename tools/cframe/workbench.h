/*
 * What a thread needs to encode or decode chunks. Each thread of a pool has its own until it ends.
 */
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
 * How many files can be in progress at a time with the descriptors that there are, at least 1 and
 * at most FILES_MAX, while one thread walks through a tree and is at this depth.
 */
#define FILES_MAX 512
unsigned workbench_files(unsigned depth);

/*
 * Opens a pool of n threads that have workbenches, or of fewer if the system allows no more, or of
 * none: then the submitting thread does the jobs. If the address space is limited, there are only
 * as many as fit with `each` bytes for each. One pool at a time. The thread that has opened a pool
 * closes it; NULL is fine.
 */
#define WORKBENCH_SPACE (9u << 20) /* what a thread takes, without chunks */
NODISCARD int workbenches_open(struct pool **pool, unsigned n, uint64_t each);
void workbenches_close(struct pool *pool);

/* That of the calling thread; NULL: out of memory. */
struct workbench *workbench_get(void);

/* Frees what only a large chunk needed, in the calling thread's workbench, if it has one. */
void workbench_trim(void);

/*
 * Encodes a chunk into b->b. `pool`: that of this thread; if no job waits there, its threads share
 * the blocks. NULL: they have other work.
 */
NODISCARD int workbench_encode(struct workbench *b, struct pool *pool, const struct pipeline *p,
			       struct view plain);

#endif
