/*
 * Which dirty chunks are stored in the frame, and when: hands them to the workers (store.h), and
 * waits for them. The commit is up to the caller (file_sync).
 *
 * Unless said otherwise a function takes the file's lock itself. So do the workers: a thread that
 * waits for them must not hold it.
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
 * Call after a write to a DIRTY chunk. If the chunk is full it goes to the workers, unless it has
 * to wait for chunks before it or for the next batch: then it stays DIRTY, as it does while an
 * older copy is still FLUSHING. The file's lock is held for writing.
 *
 * Full chunks are handed over in file order, whatever the order in which they arrive: each of the
 * tuner's choices builds on the one before, and the same bytes should get the same pipelines. The
 * kernel sends what is written from start to end in order, but several threads read its requests.
 * So a chunk waits for those before it, as long as these are few enough to be in the hands of those
 * threads. The wait ends when everything DIRTY is handed over, by a commit or for lack of memory.
 */
void flush_if_full(struct file *f, struct dirty_chunk *c);

#define FLUSH_ALL UINT_MAX

/*
 * Hands the next batch of DIRTY chunks to the workers, at most `most` of them; and all those
 * without which no commit can be made (must_store). Returns how many are FLUSHING then.
 */
unsigned flush_submit_batch(struct file *f, unsigned most);

/*
 * Waits until no chunk of the file is with the workers. Returns the first failure since the last
 * call.
 */
NODISCARD int flush_wait(struct file *f);

/*
 * If one chunk of up to FLUSH_WHOLE bytes is all that is DIRTY, stores it on the calling thread,
 * which would only wait for a worker: waking a worker and being woken by it takes longer than
 * encoding a block. For chunks larger than SMALL (flush.c) one thread at a time does so; others
 * leave them to the workers. False: there is no such chunk. True: flush_wait says how it went.
 */
bool flush_only(struct file *f);

/*
 * True: a write from the kernel's cache that ends at `end` may be the last one before a small file
 * is closed, since only the end of what a program has written is sent as a partial page. Then
 * flush_early, called after the write was answered, does what flush_only does, if the file still
 * ends there: the kernel has other requests to send before it waits for the chunk. The file must
 * not be freed meanwhile.
 */
bool flush_early_suits(uint64_t end);
void flush_early(struct file *f, uint64_t end);

#endif
