/*
 * The memory of a read in progress. LARGE_FREE bytes every thread may take; more is lent out of the
 * cache's share (large.h), and has to be waited for with nothing of the cache held.
 */
#ifndef FS_FILE_FETCH_MEMORY_H
#define FS_FILE_FETCH_MEMORY_H

#include "fs/file/fetch.h"

/*
 * To be called before so many bytes are taken in all. -E2BIG: the reader has to let go of
 * everything, and to get them by fetch_take_memory.
 */
NODISCARD int fetch_ask_memory(struct fetch *x, uint64_t bytes);

/* After -E2BIG, with nothing held: gets what was wanted. -E2BIG: nobody may have that much. */
NODISCARD int fetch_take_memory(struct fetch *x);

/* What was lent is about to be used. */
void fetch_use_memory(struct fetch *x);

/* Gives back all but `keep` bytes of what was lent. What was held in it has been freed. */
void fetch_give_memory(struct fetch *x, uint64_t keep);

#endif
