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

NODISCARD int large_open(struct large **l, struct cache *cache);
void large_close(struct large *l);

/* The most that large_take can grant. */
uint64_t large_most(const struct large *l);

/* Waits for its turn, then until so much is free. -E2BIG: more than large_most. */
NODISCARD int large_take(struct large *l, uint64_t bytes);

/*
 * To be called when memory that was taken is about to be used: the cache makes room. Not earlier,
 * since what is wanted may have come into the cache during the wait, and would have to be evicted
 * again.
 */
void large_use(struct large *l, uint64_t bytes);

/*
 * Adds so many bytes (or, if negative, subtracts them) for a worker that stores a large chunk. It
 * does not wait for anybody, since readers that wait here may hold the lock that it will need.
 */
void large_press(struct large *l, int64_t bytes);

/*
 * Gives back `taken` bytes of what was taken, of which `used` bytes had been put to use by
 * large_use.
 */
void large_give(struct large *l, uint64_t taken, uint64_t used);

#endif
