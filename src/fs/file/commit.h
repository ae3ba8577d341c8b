/*
 * Committing an open file: what is in its frame goes to the disk. This also takes care of the times
 * and capabilities of the inode, which our own writes would change, and of the locks of other
 * programs (share.h). Dirty chunks are stored in the frame before that: drain.h.
 *
 * Unless said otherwise the gate is held for writing; neither the file's lock nor that of the inode
 * is.
 */
#ifndef FS_FILE_COMMIT_H
#define FS_FILE_COMMIT_H

#include "fs/file/file.h"

/* frame_commit for an open file; not COMMIT_PART. */
NODISCARD int file_commit_gated(struct file *f, enum durability how);

/*
 * A commit that another one will follow (COMMIT_PART):
 *
 *   - The mount goes on showing the application's times, which the last commit sets.
 *   - If bytes are missing in the part by which the file has grown, the committed file ends before
 *     them, so that nobody sees zeros in their place. If it cannot end there, nothing is done.
 *   - While the log is replayed, nothing is done either.
 */
NODISCARD int file_commit_part_gated(struct file *f);

/*
 * The same if it frees much space of replaced chunks (wants_commit). Takes the gate itself. Stores
 * nothing that is DIRTY before, unless there is no commit without it.
 */
NODISCARD int file_commit_part(struct file *f);

/*
 * For a full disk: frees the space that is only kept until a root that does not use it is durable.
 * To that end syncs the root on disk, and commits if that frees more. After a failed sync it only
 * commits: what the root on disk points to may be lost.
 */
NODISCARD int file_make_room(struct file *f);

/*
 * frame_compact between two commits, which allow the file to shrink. 1: call it again. -ESTALE:
 * another program has changed the file.
 */
NODISCARD int file_compact_gated(struct file *f);
bool file_wants_compact(struct file *f);

/* frame_set_wary under the lock. Here the gate may be held for reading, too. */
bool file_set_wary_gated(struct file *f, bool wary);

/* fsync of the backing file: syncs attributes as well, which a commit does not. */
NODISCARD int file_sync_inode(struct file *f);

/*
 * Call after a sync of the backing file, other than a commit's, has failed: the next commit will
 * not rely on what came before. The gate has been held since before that sync, so that no commit
 * came in between.
 */
void file_note_failed_sync(struct file *f);

/*
 * True: the root on disk does not say that it is durable (frame_unproven), and the next commit that
 * syncs shall note that in it. Not where this would mean locking out other programs, or another
 * inode, to which the file was left (inode_detach), nor where the file would lose what we cannot
 * restore. The lock is held.
 */
bool file_wants_vouch(const struct file *f);

/*
 * The same for the header of a frame that went back to an older root (frame_recovered): the next
 * commit that syncs writes it, with other programs locked out. The lock is held.
 */
bool file_wants_header(const struct file *f);

/*
 * Restores the capabilities that writes to the backing file have removed. Call after the last of
 * those writes. True: they had been removed; they are not durable yet. If they cannot be set they
 * are gone, and the log says so. Needs no lock.
 */
bool file_put_caps_back(struct file *f);

#endif
