/* The table of inodes, for the files that make up inode.h. */
#ifndef FS_INODE_IMPL_H
#define FS_INODE_IMPL_H

#include "fs/inode/inode.h"

struct inodes {
	pthread_mutex_t lock;
	struct inode *table;            /* all under lock */
	struct inode *detached;         /* still used, but no longer in the table */
	struct inode *newest, *oldest;  /* those whose descriptor may be closed, by last use */
	struct inode *erased;           /* removed from the table, and not freed yet */
	unsigned nfds;                  /* descriptors that inodes have */
	unsigned others;                /* open directories, files that are no frames, lock files */
	unsigned limit;                 /* of the process; fixed */
	atomic_uint nameless;           /* files without a name that are not closed yet */
	_Atomic uint64_t nameless_when; /* meter_now when the last one lost its name; 0: none has */
	atomic_uint renaming;           /* changes of names under way ...                   */
	atomic_uint renames;            /* ... and how many there have been                 */
	struct backing *backing;
	struct inode *root;
};

/* Both are called under the lock. The newest name comes first: it is the likeliest to be there. */
void inodes_link_add(struct inode *n, struct inode *parent, const char *backing);
void inodes_put(struct inodes *t, struct inode *n, uint64_t refs);

/*
 * Both are called under the lock. _give gives a descriptor, which may be closed at any time, to an
 * inode that has none. _unlist takes an inode that is about to be erased off the list of those
 * whose descriptor may be closed.
 */
void inodes_fd_give(struct inodes *t, struct inode *n, int fd, bool readable);
void inodes_fd_unlist(struct inodes *t, struct inode *n);

/*
 * Unlocks, and then frees what was erased: not under the lock, since closing a file without a name
 * frees its room on the disk, which can take seconds for a large one.
 */
void inodes_unlock(struct inodes *t);

#endif
