/* What a thread needs to encode: each thread of a pool has its own, until it ends. */
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include "base/pool.h"
#include "codec/parallel.h"

struct workbench {
	struct scratch *s;
	struct parallel *parallel; /* NULL: not needed so far */
	struct buf stored;         /* the last chunk          */
};

/* Before the pool is opened, and after it is closed. */
NODISCARD int workbench_init(void);
void workbench_end(void);

/* The thread's own; NULL without memory. */
struct workbench *workbench_get(void);

/*
 * Encodes a chunk to b->stored. `pool`, whose thread this is: if no job waits there, its threads
 * share the blocks; NULL: they have others.
 */
NODISCARD int workbench_encode(struct workbench *b, struct pool *pool, const struct pipeline *p,
			       struct view plain);

#endif
