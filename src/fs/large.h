/*
 * Memory for what does not fit into a thread's own workspace: large blocks in frames of other
 * programs, long tables of blocks. There is one budget per mount, taken out of the cache's, so that
 * everything stays within -o cache= and what README says the daemon takes in addition.
 *
 * A reader asks for everything it will need at once, while it holds no other part of the budget and
 * no large entry of the cache. So whoever has a part waits for nobody, and gives it back. A reader
 * may hold its file's lock while it waits, since whoever has a part never asks for such a lock.
 *
 * All sizes are in bytes. Any thread may call any function.
 */
#ifndef FS_LARGE_H
#define FS_LARGE_H

#include "frame/cache.h"

struct large;

/* What each thread may use without asking: enough for the blocks of ordinary frames. */
#define LARGE_FREE (3u << 19)

/* How much more than the cache's size may be taken in all, for blocks and for indexes (held.h). */
#define LARGE_BEYOND (32u << 20)

/* large_most, where the cache has that size. */
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
 * Takes `bytes` of the budget. Callers are served in the order in which they came; each waits until
 * it is its turn and so much is free. -E2BIG, at once: that is more than large_most.
 */
NODISCARD int large_take(struct large *l, uint64_t bytes);

/*
 * To be called when `bytes` of what was taken are about to be used: the cache makes room for them.
 * Not earlier: another reader may have cached the wanted block during the wait, and making room
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
 * counted: more than half would be in use of what may be, the cache included. The rest is for
 * workers, who do not ask.
 */
NODISCARD bool large_borrow(struct large *l, uint64_t bytes);
void large_return(struct large *l, uint64_t bytes);

/*
 * Gives back `taken` bytes of what was taken, of which `used` bytes had been put to use by
 * large_use.
 */
void large_give(struct large *l, uint64_t taken, uint64_t used);

#endif
