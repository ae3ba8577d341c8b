/*
 * The times that the mount shows: mtime and ctime of the application's last change, not of the
 * flush that brings it to the backing file seconds later. While a change waits for its commit, the
 * application's times are `pending` in the inode. All functions take n->lock themselves; `fd` is
 * any descriptor of the backing file.
 */
#ifndef FS_INODE_TIMES_H
#define FS_INODE_TIMES_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

struct inode;

/*
 * Times of the application's last change, while they differ from the backing file's. A commit sets
 * mtime. ctime cannot be set: ours is shown for as long as the backing file has the ctime that our
 * own commit caused.
 *
 *   pending  shadow  shown
 *   no       no      the backing file's times
 *   yes      any     ours; `shadow` is that of the commit before
 *   no       yes     its mtime, and our ctime, until the backing file has another ctime
 *
 *   -> pending             times_touch (a write), times_hold (before a write of our own)
 *   pending -> shadow      times_committed
 *   pending -> not         times_release: nothing was committed; `shadow` is as it was
 *   neither -> shadow      times_set
 */
struct inode_times {
	struct timespec mtime, ctime;
	bool pending; /* both are shown, and wait for a commit                            */
	bool given;   /* while pending: mtime was set or touched after times_hold         */
	bool shadow;  /* `ctime` is shown in place of `backing_ctime`                     */
	struct timespec backing_ctime;
};

/* Call when the application has just changed the content. */
void times_touch(struct inode *n);

/*
 * The same for anything else about the inode, such as its mode or a name: the next fsync has to
 * bring it to the disk.
 */
void times_touch_inode(struct inode *n);

/* Call before our own writes: until the commit the mount shows the times as they are now. */
void times_hold(struct inode *n, int fd);

/* Sets the mtime that is pending, if one is. */
void times_set_mtime(struct inode *n, const struct timespec *mtime);

/*
 * The application or the kernel sets atime and mtime, as with utimensat(2), except that mtime is
 * never UTIME_NOW. `ctime`: the one that the kernel has sent, to be shown; or NULL. While times are
 * pending, the mtime is set by the commit. Returns the error of utimensat.
 */
NODISCARD int times_set(struct inode *n, int fd, const struct timespec ts[2],
			const struct timespec *ctime);

/*
 * Call after a write of our own whose commit comes only after a while: sets the mtime that the
 * commit will set, since a daemon killed before it would leave that of the write. Nothing if none
 * is pending.
 */
void times_set_early(struct inode *n, int fd);

/*
 * Call if no commit will follow times_hold, since the frame has no changes. An mtime that was set
 * meanwhile is applied to the file.
 */
void times_release(struct inode *n, int fd);

/* Replaces the backing file's times in *st by the application's, where they differ. */
void times_show(struct inode *n, struct stat *st);

/* The mtime that the next commit will set; if none is pending, that of the backing file. */
struct timespec times_mtime(struct inode *n, int fd);

/* After a commit: sets the application's mtime on the backing file, and notes its attributes. */
void times_committed(struct inode *n, int fd);

#endif
