/*
 * Memory for what does not fit into a thread's own workspace: large blocks in frames written by
 * other programs, long block tables. There is one budget per mount. It comes out of the cache's
 * share, so that everything stays within -o cache= plus what README says the daemon takes in
 * addition.
 *
 * A reader asks for everything it will need at once, while it holds no other part of the budget and
 * no large entry of the cache. So a thread that holds a part never waits for another, and gives its
 * part back. A reader may hold its file's lock while it waits, since no thread that holds a part
 * takes such a lock.
 *
 * All sizes are in bytes. Any thread may call any function.
 */
#ifndef FS_LARGE_H
#define FS_LARGE_H

#include "frame/cache.h"

struct large;

/* What each thread may use without large_take: enough for the blocks of ordinary frames. */
#define LARGE_FREE (3u << 19)

/* How much may be taken beyond the cache's size in all, for blocks and for indexes (held.h). */
#define LARGE_BEYOND (32u << 20)

/* large_most for a cache of this size. */
static inline uint64_t large_most_beside(uint64_t cache)
{
	return min_u64(cache, UINT64_MAX / 2) + LARGE_BEYOND;
}

/* Borrows the cache, whose share it lends; -ENOMEM. */
NODISCARD int large_open(struct large **l, struct cache *cache);
void large_close(struct large *l); /* with nothing taken or counted; NULL is fine */

/* The most that large_take can grant. */
uint64_t large_most(const struct large *l);

/*
 * Takes `bytes` from the budget. Callers are served in order of arrival; each waits for its turn
 * and until that much is free. -E2BIG, at once: more than large_most.
 */
NODISCARD int large_take(struct large *l, uint64_t bytes);

/*
 * Call when `bytes` of what was taken are about to be used: the cache makes room for them. Do not
 * call it earlier: another reader may have cached the wanted block during the wait, and making room
 * could evict it.
 */
void large_use(struct large *l, uint64_t bytes);

/*
 * Counts `bytes` more (if negative, fewer) as used by a worker that stores a large chunk; the cache
 * makes room. Never waits: a reader that waits here may hold the file's lock, which the worker will
 * need.
 */
void large_press(struct large *l, int64_t bytes);

/*
 * large_press of `bytes` for a request that waits; large_return ends that. False, and nothing is
 * counted: more than half of what may be in use, cache included, would be. The rest is for workers,
 * which do not ask.
 */
NODISCARD bool large_borrow(struct large *l, uint64_t bytes);
void large_return(struct large *l, uint64_t bytes);

/* Gives back `taken` bytes, `used` of which had been passed to large_use. */
void large_give(struct large *l, uint64_t taken, uint64_t used);

#endif
