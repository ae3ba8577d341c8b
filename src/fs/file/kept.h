/*
 * Files that nobody has open any more, but that stay open in the daemon: an fsync has put bytes
 * into the intent log, the backing disk has no room for the commit that must follow, and closing
 * the file now would show it as it was before that fsync.
 *
 * Such a file counts as used once more (inode.nopen), with a reference to its inode. Whoever opens
 * it sees what was written; closing it again tries no commit, since many may read it. It is closed
 * by the keeper once a commit has found room, when another program has written the file (what was
 * synced is put aside then), when its last name is removed, or when the mount ends. Its data is
 * part of dirty_max.
 */
#ifndef FS_FILE_KEPT_H
#define FS_FILE_KEPT_H

#include <pthread.h>
#include <stdbool.h>

struct file;
struct fs;
struct inode;

/* Of a mount. Starts with its lock initialized, else zeroed. */
struct kept {
	pthread_mutex_t lock; /* innermost */
	struct file *first;
};

/* True: the last user's sync of the file has ended with rc, and the file has to be kept. */
bool kept_suits(struct file *f, int rc);

/* Gives the caller's use of the file away. n->lock is held. */
void kept_add(struct file *f);

/*
 * When the only other user of a file goes. False: it was not kept, or goes on waiting for the
 * keeper. True: it need not, or bytes are missing whose write was refused, which the last close has
 * to settle; the use and the reference are the caller's now, to be given back by file_put and
 * inode_put. n->lock is held.
 */
bool kept_take_idle(struct file *f);

/*
 * After a try to commit the file, which is pinned in the budget. Not NULL: it need not be kept any
 * longer, and its use and the reference of that inode are the caller's, as above.
 */
struct inode *kept_done(struct file *f, int rc);

/* The last name of the inode was removed: its room is to be free at once. */
void kept_nameless(struct fs *fs, struct inode *n);

/* Closes all of them, whether there is room or not. Nothing is served any more. */
void kept_end(struct fs *fs);

#endif
