/*
 * Memory for what is too large for a thread's own workspace: large blocks of other programs'
 * frames, long tables of blocks. One budget for the mount, beside and out of the cache's, so that
 * all of it stays within -o cache= and what README says that the daemon takes beside that.
 *
 * A reader asks for all that it will need at once, when it holds no other part of the budget and no
 * large entry of the cache; so those who have a part wait for nobody, and give it back. It may hold
 * its file's lock: whoever has a part never asks for such a lock.
 *
 * Any thread.
 */
#ifndef FS_LARGE_H
#define FS_LARGE_H

#include "frame/cache.h"

struct large;

/* What each thread may take without asking: the blocks of ordinary frames. */
#define LARGE_FREE (3u << 19)

NODISCARD int large_open(struct large **l, struct cache *cache);
void large_close(struct large *l);

/* The most that can be had. */
uint64_t large_most(const struct large *l);

/* Waits for its turn, then until so much is free. -E2BIG: that will never be. */
NODISCARD int large_take(struct large *l, uint64_t bytes);

/*
 * The memory is about to be used: the cache makes room. Not before, since what is wanted may have
 * come into the cache during the wait, and would have to leave it again.
 */
void large_use(struct large *l, uint64_t bytes);

/*
 * So many bytes more, or fewer, for a worker that stores a large chunk. It waits for nobody, since
 * readers that wait here may hold the lock that it will need.
 */
void large_press(struct large *l, int64_t bytes);

/* Gives a part back: `used` bytes less in use, and `taken` less taken. */
void large_give(struct large *l, uint64_t taken, uint64_t used);

#endif
