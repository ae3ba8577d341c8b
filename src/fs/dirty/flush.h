/*
 * Dirty chunks on their way into the frame, on the workers:
 * encode - space - write - index. The commit is the caller's (file_sync).
 */
#ifndef FS_DIRTY_FLUSH_H
#define FS_DIRTY_FLUSH_H

#include "fs/dirty/dirty.h"

#include <limits.h>

/*
 * Chunks that replace stored ones are handed over in turns of a part of the file, so that a commit
 * between two turns can free what the first one replaced. Up to this size a file is one turn, and
 * goes from one committed state to the next as a whole.
 */
#define FLUSH_WHOLE (1u << 20)

/*
 * Full chunks are handed over in the order in which they lie in the file, also when they come in
 * another: the tuner's choices follow each other, so that the same bytes get the same pipelines.
 * The kernel sends what is written from start to end in order, but many threads read its requests.
 * A chunk waits for those before it, as long as they are few enough to be in those threads' hands.
 * What ends this waiting is whatever hands over all that is DIRTY: a commit, or lack of memory.
 *
 * Hands a full DIRTY chunk to the workers, unless it has to wait for those before it or for the
 * next turn: then it stays DIRTY, as does one of which an older copy is still FLUSHING. The file's
 * lock is held for writing.
 */
void flush_submit_full(struct file *f, struct dirty_chunk *c);

/*
 * Hands the next turn of DIRTY chunks to the workers, at most `most` of them. Returns how many are
 * FLUSHING then. Takes the file's lock.
 */
#define FLUSH_ALL UINT_MAX
unsigned flush_submit_turn(struct file *f, unsigned most);

/* Waits until no chunk of the file is with the workers. The first failure since the last call. */
NODISCARD int flush_wait(struct file *f);

/* If a single small chunk is all that is DIRTY, stores it in this thread. */
void flush_small(struct file *f);

#endif
