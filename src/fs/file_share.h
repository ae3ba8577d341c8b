/*
 * A frame that other programs change too: by replacing, cutting or lengthening the backing file, or
 * as users of the reference library with its locking on (sidecar.h).
 */
#ifndef FS_FILE_SHARE_H
#define FS_FILE_SHARE_H

#include "fs/file.h"

/* True: the backing file is not what it was after our last own change. Under n->lock. */
bool file_is_foreign(const struct inode *n, const struct stat *st);

/* True: it was looked at before with these attributes, and in doubt long enough. Under n->lock. */
bool file_is_settled(const struct inode *n, const struct stat *st);

/* Attributes from before the content, which may be another program's, is read. Under n->lock. */
void file_see(struct inode *n, const struct stat *st);

/*
 * inode_detach, if nothing of ours is on its way to the file, nor will be: from then on it is
 * read only. False: not now. Under n->lock.
 */
NODISCARD bool file_detach(struct file *f);

/* Looks for the sidecar of an open frame. Holds no other lock but n->lock. */
void file_look_sidecar(struct file *f);

/*
 * A clean file that somebody else changed is read anew; one with changes of ours stays as it is. 1:
 * it was read anew, and the kernel is being told. `sure`: a sidecar says so, do not compare. Under
 * n->lock.
 */
NODISCARD int file_reload_locked(struct file *f, bool sure);

/*
 * The same by who does not hold n->lock, with the attributes of the backing file as they are now.
 */
NODISCARD int file_reload(struct file *f, const struct stat *st);

/*
 * Around every read: nobody writes meanwhile who takes
 * part in locking, and what is read is the newest.
 */
bool file_enter_shared(struct file *f);
void file_leave_shared(struct file *f, bool held);

/*
 * Around a commit: how it was entered. UNSURE: another program may have replaced chunks, and what
 * is cached of them goes when it is left. -ESTALE: it wrote while we had changes.
 */
enum entered { NOT_SHARED, ENTERED, ENTERED_UNSURE };
NODISCARD int file_enter_commit(struct file *f);
void file_leave_commit(struct file *f, enum entered how);

#endif
