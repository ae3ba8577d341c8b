/*
 * A queue of items that wait for memory or for a worker, in which files take turns: a file with
 * many items does not keep those with few waiting. The items of each file stay in order of arrival.
 * Every call takes constant time.
 */
#ifndef FS_DIRTY_FAIR_H
#define FS_DIRTY_FAIR_H

#include <stddef.h>

struct fair_item {
	struct fair_item *next;
};

/* The waiting items of one file. Starts zeroed; not to be freed while there are any. */
struct fair_file {
	struct fair_item *first, *last;
	struct fair_file *next; /* its turn comes after this one's */
};

/* Starts zeroed. */
struct fair_queue {
	struct fair_file *first, *last;
};

/* Puts the item behind all others of its file. Both are borrowed until it is taken. */
void fair_put(struct fair_queue *q, struct fair_file *f, struct fair_item *i);

/* The item whose turn it is; NULL: nothing waits. It stays the first until it is taken. */
static inline struct fair_item *fair_first(const struct fair_queue *q)
{
	return q->first ? q->first->first : NULL;
}

/* Removes the first item; there must be one. Then it is the next file's turn. */
void fair_take(struct fair_queue *q);

#endif
