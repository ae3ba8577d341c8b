/*
 * The line of those that wait for memory to change a file (budget_enter). Files take turns
 * (fair.h); those of the same file are admitted in the order in which they came, so that what the
 * kernel sends from start to end stays roughly in that order (flush.h).
 *
 * Each of them is a thread that serves no other request meanwhile, and a program that writes faster
 * than the workers store makes the kernel send dozens of writes at a time. So where many wait, each
 * more has an extra thread in its place (relief.h), as long as the cache can lend the memory for
 * what waits.
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
	unsigned patient; /* so many wait without an extra thread; fixed, as those above */
	unsigned waiting; /* those without one                                           */
};

/* A place in the line, on the stack of the thread that waits. */
struct line_place {
	struct fair_item item;
	pthread_cond_t first;  /* those before it are in                       */
	uint64_t held;         /* bytes of memory that wait with it            */
	bool relieved;         /* an extra thread may serve in its place       */
};

/*
 * A quarter of the threads that serve requests may wait without others in their place. The rest is
 * for those that wait elsewhere, such as in a close for chunks to be stored.
 */
void line_init(struct line *l, struct fs *fs, pthread_mutex_t *lock);

/* True: nobody waits, so whoever comes need not join. */
static inline bool line_is_empty(const struct line *l)
{
	return !fair_first(&l->queue);
}

/*
 * Waits until it is the turn of *p. `file`: of whose requests it is one. `data`: bytes of memory
 * that its thread holds meanwhile. The lock is given up.
 */
void line_join(struct line *l, struct line_place *p, struct fair_file *file, size_t data);

/* For the first, which is let in or gives up: the next one has its turn. Gives up the lock, too. */
void line_leave(struct line *l, struct line_place *p);

#endif
