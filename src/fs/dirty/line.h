/*
 * The queue of threads that wait for memory to change a file (budget_enter). Files take turns
 * (fair.h); threads of the same file are admitted in order of arrival, so that what the kernel
 * sends from start to end stays roughly in that order (flush.h).
 *
 * A waiting thread serves no other request, and a program that writes faster than the workers store
 * makes the kernel send dozens of writes at a time. So once many wait, each further one gets an
 * extra thread in its place (relief.h), as long as the cache can lend the memory for the data that
 * waits.
 */
#ifndef FS_DIRTY_LINE_H
#define FS_DIRTY_LINE_H

#include "fs/dirty/fair.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fs;

/* All under `lock`, which is the budget's. */
struct line {
	struct fair_queue queue;
	pthread_mutex_t *lock;
	struct fs *fs;
	unsigned patient; /* how many may wait without an extra thread; fixed, as is all above */
	unsigned waiting; /* how many do */
};

/* A place in the line, on the stack of the thread that waits. */
struct line_place {
	struct fair_item item;
	pthread_cond_t first;  /* signalled when it is first                   */
	uint64_t held;         /* bytes of memory held meanwhile               */
	bool relieved;         /* an extra thread may serve in its place       */
};

/*
 * A quarter of the threads that serve requests may wait without extra threads in their place. The
 * rest is for those that wait elsewhere, such as in a close for chunks to be stored.
 */
void line_init(struct line *l, struct fs *fs, pthread_mutex_t *lock);

/* True: nobody waits, so a newcomer need not join. */
static inline bool line_is_empty(const struct line *l)
{
	return !fair_first(&l->queue);
}

/*
 * Waits until it is the turn of *p. `file`: the queue of the file that it concerns. `data`: bytes
 * of memory that the thread holds meanwhile. Releases the lock while it waits.
 */
void line_join(struct line *l, struct line_place *p, struct fair_file *file, size_t data);

/*
 * For the first, which is admitted or gives up: the next one has its turn. May release the lock,
 * too.
 */
void line_leave(struct line *l, struct line_place *p);

#endif
