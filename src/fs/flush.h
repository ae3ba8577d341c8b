/*
 * Dirty chunks on their way into the frame, on the workers:
 * encode - space - write - index. The commit is the caller's (file_sync).
 */
#ifndef FS_FLUSH_H
#define FS_FLUSH_H

#include "fs/dirty.h"

#include <limits.h>

/* A file of so many bytes may grow for a moment: it goes from one state to the next as a whole. */
#define FLUSH_WHOLE (1u << 20)

/*
 * Chunks that replace stored ones go only so many at a time that their space can be had again by
 * commits between; none goes while an older copy of it is with the workers. Who stays is DIRTY.
 */

/* Hands one DIRTY chunk to the workers. The file's lock is held for writing. */
void flush_submit_full(struct file *f, struct dirty_chunk *c);

/* Of a file all, or `most`. Returns how many are with the workers. Takes the file's lock. */
#define FLUSH_ALL UINT_MAX
unsigned flush_submit_turn(struct file *f, unsigned most);

/* Waits until no chunk of the file is with the workers; the first failure since the last call. */
NODISCARD int flush_wait(struct file *f);

/* Stores a single small chunk, if that is all that is DIRTY, in this thread. */
void flush_small(struct file *f);

#endif
