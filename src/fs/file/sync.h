/*
 * From memory into the frame (drain.h), and from there to the disk (commit.h). For what cannot be
 * stored, see loss.h. Each function takes the gate, and waits: the caller holds no lock of ours.
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

/*
 * For a change that has to be durable at once: as file_fsync of the data, but the kernel may have
 * pages that it has yet to send.
 */
NODISCARD int file_sync_data(struct file *f);

/* For the close of a handle: commits what was written. */
NODISCARD int file_flush(struct file *f);

/* Moves some chunks from the end of the file into gaps (frame_compact). 1: call it again. */
NODISCARD int file_compact(struct file *f);

/*
 * Takes a file off the list of those to commit (uncommitted.h), unless it has changes or the log
 * has bytes of it. Unlike after a sync, large gaps in its frame do not keep it there.
 */
void file_unlist(struct file *f);

#endif
