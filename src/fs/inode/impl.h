/* The table of inodes, for the files that make up inode.h. */
#ifndef FS_INODE_IMPL_H
#define FS_INODE_IMPL_H

#include "fs/inode/inode.h"

struct inodes {
	pthread_mutex_t lock;
	struct inode *table;            /* all under lock */
	struct inode *detached;         /* those in use that are in the table no more */
	struct inode *newest, *oldest;  /* with a descriptor that may be closed */
	struct inode *erased;           /* out of the table, and not freed yet */
	unsigned nfds, max_fds;
	atomic_uint nameless;           /* files without a name that are not closed yet */
	_Atomic uint64_t nameless_when; /* meter_now, when the last one lost it; 0: none has */
	atomic_uint renaming;           /* changes of names under way ...                   */
	atomic_uint renames;            /* ... and how many there have been                 */
	struct backing *backing;
	struct inode *root;
};

/* Both are called under the lock. The newest name comes first: it is the likeliest to be there. */
void inodes_link_add(struct inode *n, struct inode *parent, const char *backing);
void inodes_put(struct inodes *t, struct inode *n, uint64_t refs);

/*
 * Both under the lock. An inode without a descriptor gets one, which may be closed any time; one
 * that is going to be erased is not on the list of those that may be.
 */
void inodes_fd_give(struct inodes *t, struct inode *n, int fd, bool readable);
void inodes_fd_unlist(struct inodes *t, struct inode *n);

/*
 * Unlocks, and frees what was erased. Not under the lock: closing a file that has no name gives
 * back its room, which takes seconds for a large one.
 */
void inodes_unlock(struct inodes *t);

#endif
