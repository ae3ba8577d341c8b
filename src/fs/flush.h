/*
 * Dirty chunks on their way into the frame, on the workers:
 * encode - space - write - index. The commit is the caller's (file_sync).
 */
#ifndef FS_FLUSH_H
#define FS_FLUSH_H

#include "fs/dirty.h"

/*
 * Hands one DIRTY chunk to the workers, unless an older copy of it is still with them.
 * The file's lock is held for writing. A failure leaves it DIRTY.
 */
void flush_submit(struct file *f, struct dirty_chunk *c);

/* The same for all of a file; returns how many went. Takes the file's lock. */
unsigned flush_submit_all(struct file *f);

/* Waits until no chunk of the file is with the workers; the first failure since the last call. */
NODISCARD int flush_wait(struct file *f);

/* Everything DIRTY lands in the frame, or the failure. The gate is held for writing. */
NODISCARD int flush_all(struct file *f);

#endif
