/*
 * Storing dirty chunks in the frame, on the workers: encode, find space, write, enter into the
 * index. The commit is up to the caller (file_sync).
 *
 * Unless said otherwise a function takes the file's lock itself. So do the workers: whoever waits
 * for them does not hold it.
 */
#ifndef FS_DIRTY_FLUSH_H
#define FS_DIRTY_FLUSH_H

#include "fs/dirty/dirty.h"

#include <limits.h>

/*
 * Chunks that replace stored ones are handed over in batches, each a part of the file, so that a
 * commit between two batches can free what the first has replaced. A file of up to this size, in
 * bytes, is one batch, and goes from one committed state to the next as a whole.
 */
#define FLUSH_WHOLE (1u << 20)

/*
 * To be called after a write to a DIRTY chunk. If it is full the workers get it, unless it has to
 * wait for chunks before it or for the next batch: then it stays DIRTY, as it does while an older
 * copy is still FLUSHING. The file's lock is held for writing.
 *
 * Full chunks are handed over in the order in which they lie in the file, even if they arrive in
 * another: each of the tuner's choices builds on the one before, and the same bytes are to get the
 * same pipelines. The kernel sends what is written from start to end in order, but several threads
 * read its requests. So a chunk waits for those before it, as long as these are few enough to be in
 * the hands of those threads. The wait ends when everything DIRTY is handed over: by a commit, or
 * for lack of memory.
 */
void flush_if_full(struct file *f, struct dirty_chunk *c);

#define FLUSH_ALL UINT_MAX

/*
 * Hands the next batch of DIRTY chunks to the workers, at most `most` of them; and those without
 * which there is no commit (must_store), however many. Returns how many are FLUSHING then.
 */
unsigned flush_submit_batch(struct file *f, unsigned most);

/*
 * Waits until the workers have no chunk of the file. Returns the first failure since the last call.
 */
NODISCARD int flush_wait(struct file *f);

/*
 * If one chunk of up to FLUSH_WHOLE bytes is all that is DIRTY, stores it on the calling thread,
 * which would only wait for a worker: waking that, and being woken by it, takes longer than to
 * encode a block. Of larger chunks than SMALL (flush.c) one thread at a time does so; others leave
 * them to the workers. False: there is no such chunk. True: flush_wait says how it went.
 */
bool flush_only(struct file *f);

/*
 * True: a write from the kernel's cache that ends there may be the last one before a small file is
 * closed, as a part of a page is sent at the end of what a program has written. Then flush_early,
 * behind the answer to it, does what flush_only does if the file still ends there: the kernel has
 * other requests to send before it waits for that. The file must not be freed meanwhile.
 */
bool flush_early_suits(uint64_t end);
void flush_early(struct file *f, uint64_t end);

#endif
