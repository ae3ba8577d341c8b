/*
 * mtime and ctime are those of the application's last change, not of the flush
 * that brings it to the backing file seconds later. All take n->lock themselves.
 */
#ifndef FS_TIMES_H
#define FS_TIMES_H

#include "fs/inode.h"

/* The application changed the content just now. */
void times_touch(struct inode *n);

/* A commit will come: until then the times are those that the backing file has now. */
void times_hold(struct inode *n, int fd);

/*
 * Times given by the application or the kernel; NULL: leave. Without an mtime it is something else
 * about the inode that has changed, and that the next fsync has to bring to the disk.
 * False: nothing pending, set them on the backing file.
 */
bool times_set(struct inode *n, const struct timespec *mtime, const struct timespec *ctime);

/*
 * No commit will come of what times_hold was called for. The frame
 * has no changes; an mtime that was given gets to the file.
 */
void times_release(struct inode *n, int fd);

/* True: the backing file is as we saw it last. */
bool times_known(struct inode *n, int fd);

/*
 * What the backing file looks like after times were set; `ctime`: the kernel knows better, or NULL.
 * `known`: times_known before.
 */
void times_set_done(struct inode *n, const struct timespec *ctime, const struct stat *backing,
		    bool known);

/* Replaces the backing times in *st by the application's, where they differ. */
void times_apply(struct inode *n, struct stat *st);

/* The mtime that the next commit will set, or that of the file at `fd`. */
void times_mtime(struct inode *n, int fd, struct timespec *mtime);

/* After a commit: gives the backing file its mtime back and remembers what it looks like now. */
void times_committed(struct inode *n, int fd);

#endif
