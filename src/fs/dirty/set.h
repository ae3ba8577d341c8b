/*
 * A set of chunks ordered by number. Nothing is allocated (base/treap.h), so a chunk whose bytes
 * were accepted can move from one set to another even when there is no memory. Under the lock of
 * the file.
 */
#ifndef FS_DIRTY_SET_H
#define FS_DIRTY_SET_H

#include "base/treap.h"

#include <stdbool.h>

struct dirty_chunk;

struct dirty_set {
	struct treap chunks;
	uint32_t count;
};

void dirty_set_init(struct dirty_set *s);

/* The set must have no chunk with the same number. */
void dirty_set_add(struct dirty_set *s, struct dirty_chunk *c);

/* The chunk must be in the set. */
void dirty_set_remove(struct dirty_set *s, struct dirty_chunk *c);

/* The chunk of that number, or NULL. */
struct dirty_chunk *dirty_set_find(const struct dirty_set *s, uint32_t n);

/* The chunk with the lowest number from n on, or NULL. */
struct dirty_chunk *dirty_set_from(const struct dirty_set *s, uint32_t n);

/*
 * Loops over the chunks from number `from` on, in order; the variable `at` is the number of `c`.
 * Goes on by number, so the body may free `c`, and chunks may come and go.
 */
#define DIRTY_SET_EACH(s, from, at, c)                                                             \
	for (uint32_t at = (from); ((c) = dirty_set_from(s, at)) && (at = (c)->n, true); at++)

#endif
