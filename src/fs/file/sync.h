/*
 * From memory into the frame, and from there to the disk; what could not be taken on that way, and
 * who is told. What a commit itself consists of: commit.h.
 */
#ifndef FS_FILE_SYNC_H
#define FS_FILE_SYNC_H

#include "fs/file/file.h"

/* Brings all that waits in memory into the frame, and commits that. */
NODISCARD int file_sync(struct file *f, enum durability how);

/* The same without a wait for the lock of another program, which gives -EAGAIN. */
NODISCARD int file_try_sync(struct file *f, enum durability how);

/*
 * fsync: the same with COMMIT_SYNC, or by way of the intent log where that is cheaper. Unless
 * `data_only` (fdatasync), changed attributes and names are on the disk afterwards, too.
 */
NODISCARD int file_fsync(struct file *f, bool data_only);

/* One of its handles is closed: what was written is committed. */
NODISCARD int file_flush(struct file *f);

/*
 * Commits what is in the frame already, dirty data left out, so that the space of replaced chunks
 * can be used again.
 */
NODISCARD int file_commit_part(struct file *f);

/* Moves some chunks from the end into gaps before them (frame_compact). 1: call again. */
NODISCARD int file_compact(struct file *f);

/* Takes a file without changes off the budget's list; gaps that it may have stay. */
void file_settle(struct file *f);

/* ---- What was refused (dirty/arrivals.h), and what was lost ---- */

/* True: bytes are missing whose write was refused. */
bool file_lacks_refused(struct file *f);

/*
 * Before an fsync. As long as bytes are missing whose write was refused, fsync and close fail, and
 * nothing behind them is shown by a commit. Whoever was told by this handle, and still asks, goes
 * on without them: there are holes in their place. *told belongs to the handle and starts as 0.
 */
void file_accept_refused(struct file *f, _Atomic uint32_t *told);

/*
 * The same for a writer that never asks, but has gone on behind them a while later: what came since
 * is not to be cut off. False: nobody has, or it could not be done. Gate and lock are held.
 */
bool file_accept_long_refused(struct file *f);

/*
 * Data was written that no later flush can store: every open handle is told the error once, by
 * file_take_loss. *seen belongs to the handle and starts as file_losses.
 */
void file_lose(struct file *f, int rc);
NODISCARD int file_take_loss(struct file *f, _Atomic uint32_t *seen);
uint32_t file_losses(struct file *f);

#endif
