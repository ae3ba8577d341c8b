/*
 * The memory of a read in progress. Every thread may take LARGE_FREE bytes. More is lent to it from
 * the cache's share (large.h); while it waits for that it holds nothing of the cache.
 */
#ifndef FS_READ_FETCH_MEMORY_H
#define FS_READ_FETCH_MEMORY_H

#include "fs/read/fetch.h"

/*
 * Call before taking memory: `bytes` is what the read will then use in all. -E2BIG: the reader has
 * to release everything, and get that much by fetch_take_memory.
 */
NODISCARD int fetch_ask_memory(struct fetch *x, uint64_t bytes);

/* After -E2BIG, with nothing held: gets what was wanted. -E2BIG: no reader may have that much. */
NODISCARD int fetch_take_memory(struct fetch *x);

/*
 * The memory of the chunk's head, if it is much. It counts as the reader's although it is in the
 * cache, which may evict it while it is in use here.
 */
uint64_t fetch_head_memory(const struct fetch *x);

/* Call when what was lent is about to be used. */
void fetch_use_memory(struct fetch *x);

/* Gives back all but `keep` bytes of what was lent. What was held in them must have been freed. */
void fetch_give_memory(struct fetch *x, uint64_t keep);

#endif
