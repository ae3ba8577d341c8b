/*
 * The memory of a read in progress. Every thread may take LARGE_FREE bytes. More is lent to it from
 * the cache's share (large.h). A step of the read that needs more than it has returns -E2BIG, and
 * holds nothing of the cache then; fetch_with_memory waits until that much is lent, and takes the
 * step again.
 */
#ifndef FS_READ_FETCH_MEMORY_H
#define FS_READ_FETCH_MEMORY_H

#include "fs/read/fetch.h"

/*
 * Takes the step, which goes on where it was, until it does not fail for lack of memory; then gives
 * back what was lent. -E2BIG: no reader may have as much as it wants, which has been logged.
 */
NODISCARD int fetch_with_memory(struct fetch *x, int (*step)(struct fetch *x));

/*
 * Call before taking memory for a block of size `block`: `bytes` is what the read will then use in
 * all. -E2BIG: it has to be lent.
 */
NODISCARD int fetch_ask_memory(struct fetch *x, uint64_t bytes, uint32_t block);

/* The same after the scratch has refused that much. Returns -E2BIG. */
NODISCARD int fetch_want_memory(struct fetch *x, uint64_t bytes, uint32_t block);

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
