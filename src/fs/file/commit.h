/*
 * Committing an open file: what is in its frame goes to the disk. Along with it: the times and
 * capabilities of the inode, which our own writes would change, and the locks of other programs
 * (share.h). Dirty chunks are stored in the frame before that: sync.c.
 *
 * The gate is held for writing; neither the file's lock nor that of the inode is.
 */
#ifndef FS_FILE_COMMIT_H
#define FS_FILE_COMMIT_H

#include "fs/file/file.h"

/*
 * frame_commit for an open file. With COMMIT_PART more is to come, so the mount keeps showing the
 * application's times; where bytes are missing in what the file has grown by, the committed file
 * ends before them; and nothing is done if it cannot end there, or while the log is replayed.
 */
NODISCARD int file_commit_gated(struct file *f, enum durability how);

/*
 * For a full disk: makes the root durable, so that what waits for that becomes free, unless a root
 * would then point to bytes that a failed sync has lost.
 */
NODISCARD int file_make_room(struct file *f);

/* frame_compact between two commits, which let the file get shorter. 1: call it again. */
NODISCARD int file_compact_gated(struct file *f);
bool file_wants_compact(struct file *f);

/* fsync of the backing file: syncs attributes as well, which a commit does not. */
NODISCARD int file_sync_inode(struct file *f);

/*
 * Restores the capabilities that writes to the backing file have removed. To be called after those
 * writes; `how` says whether they have to be durable: the sync of the commit came too early for
 * that.
 */
NODISCARD int file_put_caps_back(struct file *f, enum durability how);

#endif
