/*
 * Storing one dirty chunk in the frame: encode, find space, write, enter into the index. Which
 * chunks are stored, and when, is up to flush.h.
 */
#ifndef FS_DIRTY_STORE_H
#define FS_DIRTY_STORE_H

#include "fs/dirty/dirty.h"

/*
 * From DIRTY to FLUSHING; there is no older copy that is FLUSHING yet. From now on flush_wait waits
 * for the chunk. It has no buffers yet (buffers.h), but its job is ready for a worker. The lock is
 * held for writing.
 */
void store_begin(struct file *f, struct dirty_chunk *c);

/*
 * The job. Afterwards the chunk is clean, or DIRTY again if it could not be stored, or lost
 * (file_lose); its memory may be gone, and so may the file. Takes the lock itself.
 */
void store_run(struct pool_job *job);

#endif
