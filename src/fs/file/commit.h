/*
 * Committing an open file: what is in its frame becomes what the disk has. What lies around the
 * frame goes along: the times and capabilities of the inode, which our own writes would change, and
 * locks of other programs (share.h). Bringing dirty chunks into the frame comes before: sync.c.
 *
 * The gate is held for writing, neither the lock nor that of the inode.
 */
#ifndef FS_FILE_COMMIT_H
#define FS_FILE_COMMIT_H

#include "fs/file/file.h"

/*
 * frame_commit. COMMIT_PART: more is to come, so that the application's times go on being those
 * that are shown; what the file has grown by ends before the first bytes of it that are missing;
 * and nothing is done where it cannot end there, or while the log is replayed.
 */
NODISCARD int file_commit_gated(struct file *f, enum durability how);

/*
 * On a full disk: what waits for a durable root is free after this, if it can be done without
 * pointing a root at bytes that a failed sync has lost.
 */
NODISCARD int file_make_room(struct file *f);

/* frame_compact, between two commits that let the file get shorter. 1: call again. */
NODISCARD int file_compact_gated(struct file *f);
bool file_wants_compact(struct file *f);

/* fsync of the backing file: more than a commit needs, attributes too. */
NODISCARD int file_sync_inode(struct file *f);

/* After writes to the backing file, which took capabilities away. Their own sync came too early. */
NODISCARD int file_put_caps_back(struct file *f, enum durability how);

#endif
