/*
 * The table of inodes, for the files that make up inode.h. Functions called table_ are called with
 * its lock held.
 */
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
	uint32_t generation;            /* of the inode that was added last */
	atomic_uint nameless;           /* files without a name that are not closed yet */
	_Atomic uint64_t nameless_when; /* meter_now when the last one lost its name; 0: none has */
	atomic_uint renaming;           /* changes of names under way ...                   */
	atomic_uint renames;            /* ... and how many there have been, and one more   */
	struct backing *backing;
	struct inode *root;
};

/* The order of an inode's `names`. */
treap_order link_before;

/* As inode_is_number. */
bool table_is_of(const struct inode *n, const struct stat *st);

/* Makes this the newest name, which comes first: it is the one most likely to exist. */
void table_link_add(struct inode *n, struct inode *parent, const char *backing);

/* Drops references. An inode without any is erased, and freed by table_unlock. */
void table_put(struct inodes *t, struct inode *n, uint64_t refs);

/* Gives a descriptor, which may be closed at any time, to an inode that has none. */
void table_fd_give(struct inodes *t, struct inode *n, int fd, bool readable);

/* Takes an inode that is being erased off the list of those whose descriptor may be closed. */
void table_fd_unlist(struct inodes *t, struct inode *n);

/*
 * Unlocks, and then frees what was erased. Not under the lock, since closing a file without a name
 * frees its space on the disk, which can take seconds for a large one.
 */
void table_unlock(struct inodes *t);

#endif
