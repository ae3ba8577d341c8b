/*
 * A set of chunks ordered by number. Nothing is allocated (base/treap.h), so a chunk whose bytes
 * were accepted can move from one set to another even when there is no memory. Under the lock of
 * the file.
 */
#ifndef FS_DIRTY_SET_H
#define FS_DIRTY_SET_H

#include "base/treap.h"

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

struct dirty_chunk *dirty_set_find(const struct dirty_set *s, uint32_t n);

/*
 * The chunk with the lowest number from n on, or NULL. A loop that continues with the next number
 * works even if chunks come and go meanwhile.
 */
struct dirty_chunk *dirty_set_from(const struct dirty_set *s, uint32_t n);

#endif
