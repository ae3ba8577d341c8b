/*
 * The memory of a read in progress. Every thread may take LARGE_FREE bytes. More is lent to it out
 * of the cache's share (large.h); it waits for that with nothing of the cache held.
 */
#ifndef FS_READ_FETCH_MEMORY_H
#define FS_READ_FETCH_MEMORY_H

#include "fs/read/fetch.h"

/*
 * To be called before memory is taken: `bytes` is what the read then uses in all. -E2BIG: the
 * reader has to release everything, and to get that much by fetch_take_memory.
 */
NODISCARD int fetch_ask_memory(struct fetch *x, uint64_t bytes);

/* After -E2BIG, with nothing held: gets what was wanted. -E2BIG: nobody may have that much. */
NODISCARD int fetch_take_memory(struct fetch *x);

/*
 * The memory of the chunk's head, if it is much. It counts as the reader's although it is in the
 * cache, which may evict it while it is in use here.
 */
uint64_t fetch_head_memory(const struct fetch *x);

/* What was lent is about to be used. */
void fetch_use_memory(struct fetch *x);

/* Gives back all but `keep` bytes of what was lent. What was held in it has been freed. */
void fetch_give_memory(struct fetch *x, uint64_t keep);

#endif
