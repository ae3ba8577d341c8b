/*
 * Kept files: no application has them open any more, but the daemon does. An fsync has put bytes
 * into the intent log, the disk has no room for the commit that has to follow, and if the file were
 * closed now it would be shown as it was before that fsync.
 *
 * Being kept counts as one more user (inode.nopen), with a reference to the inode. Whoever opens
 * the file sees what was written; closing it again does not try to commit, since there may be many
 * readers. It is closed by the keeper once a commit has found room; when another program has
 * written the file (what was synced is then kept in a log that is set aside); when its last name is
 * removed; or when the mount ends. Its data is part of dirty_max.
 */
#ifndef FS_FILE_KEPT_H
#define FS_FILE_KEPT_H

#include <stdbool.h>

struct file;
struct fs;
struct inode;

/* True: the last user's sync of the file has ended with rc, and the file has to be kept. */
bool kept_suits(struct file *f, int rc);

/* Takes over the caller's count in inode.nopen. n->lock is held. */
void kept_add(struct file *f);

/*
 * For the only other user of a file, about to close it. False: the file is not kept, or has to wait
 * for the keeper. True: it need not be kept any longer, or bytes are missing whose write was
 * refused, which the last close has to settle; the count and the reference are now the caller's, to
 * be dropped by file_put and inode_put. n->lock is held.
 */
bool kept_take_idle(struct file *f);

/*
 * uncommitted_unpin after an attempt to commit the file, which has returned `rc`: closes the file
 * if it was kept, and need not be any longer. No lock is held; *f may be gone afterwards.
 */
void kept_unpin(struct file *f, int rc);

/*
 * Closes the file of the inode if it is kept, whether or not the disk has room: its last name was
 * removed, and its space is to be free at once; or the mount ends. The caller has a reference.
 */
void kept_end(struct fs *fs, struct inode *n);

#endif
