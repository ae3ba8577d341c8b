/*
 * Kept files: nobody has them open any more, but the daemon does. An fsync has put bytes into the
 * intent log, the disk has no room for the commit that has to follow, and if the file were closed
 * now it would be shown as it was before that fsync.
 *
 * A kept file counts as one more use (inode.nopen), with a reference to its inode. Whoever opens it
 * sees what was written; closing it again does not try to commit, since there may be many readers.
 * It is closed by the keeper once a commit has found room; when another program has written the
 * file (what was synced is then kept in a log that is set aside); when its last name is removed; or
 * when the mount ends. Its data is part of dirty_max.
 */
#ifndef FS_FILE_KEPT_H
#define FS_FILE_KEPT_H

#include <stdbool.h>

struct file;
struct fs;
struct inode;

/* True: the last user's sync of the file has ended with rc, and the file has to be kept. */
bool kept_suits(struct file *f, int rc);

/* Takes over the caller's use of the file. n->lock is held. */
void kept_add(struct file *f);

/*
 * For the only other user of a file, who is about to close it. False: the file is not kept, or has
 * to wait for the keeper. True: it need not be kept any longer, or bytes are missing whose write
 * was refused, which the last close has to settle; the use and the reference are the caller's now,
 * who gives them back by file_put and inode_put. n->lock is held.
 */
bool kept_take_idle(struct file *f);

/*
 * To be called after an attempt to commit the file, which is pinned (uncommitted.h). Not NULL: it
 * need not be kept any longer; its use, and the reference to the inode that is returned, are the
 * caller's, as above.
 */
struct inode *kept_done(struct file *f, int rc);

/*
 * Closes the file of the inode if it is kept, whether there is room or not: its last name is
 * removed, and its room is to be free at once; or the mount ends. The caller has a reference.
 */
void kept_end(struct fs *fs, struct inode *n);

#endif
