/*
 * A queue of what waits for memory or for a worker, in which files take turns: one that brings much
 * does not keep others waiting that bring little. Of each file things stay in the order in which
 * they came. All in constant time, whatever waits.
 */
#ifndef FS_DIRTY_FAIR_H
#define FS_DIRTY_FAIR_H

#include <stddef.h>

struct fair_item {
	struct fair_item *next;
};

/* What waits of one file. Starts zeroed; not to be freed while anything does. */
struct fair_file {
	struct fair_item *first, *last;
	struct fair_file *next; /* has its turn after this one */
};

/* Starts zeroed. */
struct fair_queue {
	struct fair_file *first, *last;
};

/* Puts the item behind all others of its file. Both are borrowed until it is taken. */
void fair_put(struct fair_queue *q, struct fair_file *f, struct fair_item *i);

/* Whose turn it is; NULL: nothing waits. It stays the first until it is taken. */
static inline struct fair_item *fair_first(const struct fair_queue *q)
{
	return q->first ? q->first->first : NULL;
}

/* Takes the first away, which there must be. Then it is the next file's turn. */
void fair_take(struct fair_queue *q);

#endif
