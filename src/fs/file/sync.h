/*
 * From memory into the frame, and from there to the disk; what cannot go that way, and who is told.
 * The commit itself: commit.h.
 */
#ifndef FS_FILE_SYNC_H
#define FS_FILE_SYNC_H

#include "fs/file/file.h"

/* Stores all data that waits in memory in the frame, and commits. */
NODISCARD int file_sync(struct file *f, enum durability how);

/* The same without waiting for the lock of another program: -EAGAIN. */
NODISCARD int file_try_sync(struct file *f, enum durability how);

/*
 * fsync: as file_sync with COMMIT_SYNC, or by the intent log where that is cheaper. Unless
 * `data_only` (fdatasync), changed attributes and names are on the disk afterwards as well.
 */
NODISCARD int file_fsync(struct file *f, bool data_only);

/* For the close of a handle: commits what was written. */
NODISCARD int file_flush(struct file *f);

/*
 * Commits what is in the frame already, without dirty data, so that the space of replaced chunks
 * can be used again.
 */
NODISCARD int file_commit_part(struct file *f);

/* Moves some chunks from the end of the file into gaps (frame_compact). 1: call it again. */
NODISCARD int file_compact(struct file *f);

/* Removes a file without changes from the budget's list; gaps in its frame stay. */
void file_settle(struct file *f);

/* ---- What was refused (dirty/arrivals.h), and what was lost ---- */

/* True: bytes are missing whose write was refused. */
bool file_lacks_refused(struct file *f);

/*
 * To be called before an fsync. While bytes are missing whose write was refused, fsync and close
 * fail, and no commit shows anything behind them. A program that was told so through this handle,
 * and asks again, continues without them: they become holes. *told belongs to the handle and starts
 * as 0.
 */
void file_accept_refused(struct file *f, _Atomic uint32_t *told);

/*
 * The same for a writer that never asks but has continued behind them for a while: what came since
 * is not to be cut off. False: nobody has, or it could not be done. Gate and lock are held.
 */
bool file_accept_long_refused(struct file *f);

/*
 * file_lose records that data was lost which no later flush can store. Every open handle is told
 * the error once, by file_take_loss. *seen belongs to the handle and starts as file_losses.
 */
void file_lose(struct file *f, int rc);
NODISCARD int file_take_loss(struct file *f, _Atomic uint32_t *seen);
uint32_t file_losses(struct file *f);

#endif
