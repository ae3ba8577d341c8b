/* Attributes: getattr and setattr. */
#include "fs/ops/ops.h"

#include "fs/file/alone.h"
#include "fs/file/discard.h"
#include "fs/file/open.h"
#include "fs/file/sync.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"
#include "fs/ops/push.h"

#include <unistd.h>

static void answer_attr(fuse_req_t req, int rc, const struct stat *st)
{
	if (rc < 0)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_attr(req, st, ops_fs(req)->opt.attr_timeout);
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);
	struct stat st;

	(void)fi;
	int rc = ops_attr(fs, n, &st);
	pthread_mutex_lock(&n->lock);
	/*
	 * The kernel would go on with its own size. So make it look the name up again, if there is
	 * one.
	 */
	if (rc >= 0 && st.st_nlink > 0 && inode_is_past(n))
		rc = -ESTALE;
	pthread_mutex_unlock(&n->lock);
	answer_attr(req, rc, &st);
}

#define SET_TIMES                                                                       \
	(FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |          \
	 FUSE_SET_ATTR_MTIME_NOW | FUSE_SET_ATTR_CTIME)
#define SET_OTHERS (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_MODE)

static int set_owner(struct inode *n, int fd, const struct stat *attr, int to_set)
{
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;

	return caps_set_owner(n, fd, uid, gid);
}

static struct timespec wanted_time(int to_set, int set, int now, struct timespec given)
{
	if (to_set & now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	return to_set & set ? given : (struct timespec){.tv_nsec = UTIME_OMIT};
}

/*
 * The mtime of a file with uncommitted changes is set by the commit. ctime is what the kernel
 * sends: with its writeback cache it alone knows when the application wrote.
 */
static int set_times(struct inode *n, int fd, const struct stat *attr, int to_set)
{
	struct timespec ts[2] = {
		wanted_time(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
		wanted_time(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim),
	};
	const struct timespec *ctime = to_set & FUSE_SET_ATTR_CTIME ? &attr->st_ctim : NULL;

	if (ts[1].tv_nsec == UTIME_NOW)
		clock_gettime(CLOCK_REALTIME_COARSE, &ts[1]);
	return times_set(n, fd, ts, ctime);
}

/* `fi`: the handle that has the file open for writing, or NULL. */
static int set_size_plain(struct fs *fs, struct inode *n, uint64_t size, struct fuse_file_info *fi)
{
	if (fi)
		return ftruncate(ops_handle(fi)->fd, (off_t)size) < 0 ? -errno : 0;
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	ops_plain_begin(n);
	int writer = backing_reopen(&fs->backing, fd, O_WRONLY | O_NONBLOCK);
	int rc = writer < 0 ? writer : inode_renumber(fs->inodes, n, writer);
	if (rc >= 0)
		rc = ftruncate(writer, (off_t)size) < 0 ? -errno : 0;
	ops_plain_end(n, writer);
	if (writer >= 0)
		close(writer);
	inode_unpin(fs->inodes, n);
	return rc;
}

/*
 * If this fails, the kernel goes on with the old size: then no later commit may store the new one.
 * A file that is also open elsewhere keeps it, and later commits try again, as after a write.
 */
static int commit_size(struct file *f)
{
	int rc = file_sync(f, COMMIT_LATER);
	return rc >= 0 || rc == -ESTALE || file_give_up_changes(f) ? rc : 0;
}

static int set_size_frame(struct fs *fs, struct inode *n, uint64_t size, struct fuse_file_info *fi)
{
	struct file *f;

	err_clear();
	if (!fi && inode_was_replaced(fs->inodes, n))
		return -ESTALE;
	int rc = file_get(fs, n, O_RDWR, &f);
	bool opened = rc >= 0;
	if (opened) {
		rc = file_truncate(f, size);
		if (rc >= 0 && !fi) /* no close will follow to report an error */
			rc = commit_size(f);
		file_put(fs, n);
	}
	if (rc < 0 && (opened || ops_is_damage(rc)))
		ops_log(fs, n, "truncate", rc);
	return -ops_errno(rc);
}

static int set_size(struct fs *fs, struct inode *n, uint64_t size, struct fuse_file_info *fi)
{
	return inode_is_frame(n) ? set_size_frame(fs, n, size, fi)
				 : set_size_plain(fs, n, size, fi);
}

static int set_attr(struct fs *fs, struct inode *n, const struct stat *attr, int to_set)
{
	int rc = 0;

	if (inode_kind(n) == NODE_SPARSE)
		return -EROFS;
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		rc = set_owner(n, fd, attr, to_set);
	if (rc >= 0 && to_set & FUSE_SET_ATTR_MODE) /* after the owner: that may clear bits */
		rc = caps_set_mode(n, fd, attr->st_mode & 07777);
	if (rc >= 0 && (to_set & SET_OTHERS || !(to_set & SET_TIMES)))
		times_touch_inode(n);
	if (rc >= 0 && to_set & SET_TIMES)
		rc = set_times(n, fd, attr, to_set);
	if (rc >= 0 && to_set & SET_OTHERS) /* times also come from the kernel, of an open file */
		rc = inode_renumber(fs->inodes, n, fd);
	inode_unpin(fs->inodes, n);
	return rc;
}

/* `fi`: as for set_size. */
static int change_attr(const struct deferred *d, struct fuse_file_info *fi, struct stat *st)
{
	struct fs *fs = ops_fs(d->req);
	struct inode *n = ops_inode(fs, d->ino);

	int rc = ops_killpriv_setattr(d->req, n, d->to_set);
	if (rc >= 0 && d->to_set & FUSE_SET_ATTR_SIZE)
		rc = set_size(fs, n, (uint64_t)d->attr.st_size, fi);
	if (rc >= 0 && d->to_set & ~FUSE_SET_ATTR_SIZE)
		rc = set_attr(fs, n, &d->attr, d->to_set);
	return rc < 0 ? rc : ops_attr(fs, n, st);
}

static void set_size_entered(struct deferred *d)
{
	struct stat st;

	int rc = change_attr(d, NULL, &st);
	push_leave(ops_inode(ops_fs(d->req), d->ino));
	answer_attr(d->req, rc, &st);
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req);
	struct deferred d = {.serve = set_size_entered, .req = req, .ino = ino, .attr = *attr};
	struct stat st;

	/* From 3.17 on libfuse passes more flags; those about privileges come from wire.h. */
	d.to_set = to_set & (FUSE_SET_ATTR_SIZE | SET_TIMES | SET_OTHERS);
	if (!(to_set & FUSE_SET_ATTR_SIZE) || fi) { /* through a handle: it may write anyway */
		int rc = change_attr(&d, fi, &st);
		answer_attr(req, rc, &st);
		return;
	}
	int rc = push_enter(fs, ops_inode(fs, ino), &d);
	if (rc == 0)
		set_size_entered(&d);
	else if (rc < 0)
		fuse_reply_err(req, -rc);
}
