/* Names: lookup, forget, unlink, rmdir, link. For creation see make.c. */
#include "fs/backing/hidden.h"
#include "fs/file/kept.h"
#include "fs/inode/times.h"
#include "fs/ops/ops.h"
#include "fs/sidecar/name.h"

#include <limits.h>
#include <unistd.h>

void op_lookup(fuse_req_t req, fuse_ino_t parent_ino, const char *name)
{
	struct fs *fs = ops_fs(req);
	struct inode *parent = ops_inode(fs, parent_ino);
	struct fuse_entry_param e;

	int dirfd = inode_pin(fs->inodes, parent);
	int rc = dirfd;
	if (rc >= 0) {
		rc = ops_enter_found(fs, parent, dirfd, name, &e);
		inode_unpin(fs->inodes, parent);
	}
	if (rc == -ENOENT && strlen(name) <= NAMES_MAX) { /* remember that there is none */
		absent_note(&fs->absent, parent, name);
		e = (struct fuse_entry_param){.entry_timeout = fs->opt.entry_timeout};
		fuse_reply_entry(req, &e);
		return;
	}
	if (rc == -ENOENT)
		rc = -ENAMETOOLONG;
	ops_reply_entry(req, rc, &e);
}

static void forget(struct fs *fs, fuse_ino_t ino, uint64_t nlookup)
{
	struct inode *n = ops_inode(fs, ino);
	if (n != inodes_root(fs->inodes))
		inode_put(fs->inodes, n, nlookup);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	forget(ops_fs(req), ino, nlookup);
	fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		forget(ops_fs(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

void ops_unlinked(struct fs *fs, struct inode *parent, struct entry *e)
{
	struct inode *n = inode_known(fs->inodes, e);
	bool last = e->st.st_nlink == 1 && S_ISREG(e->st.st_mode);

	if (last)
		inodes_removed(fs->inodes, e);
	if (n) {
		inode_link_remove(fs->inodes, n, parent, e->backing);
		inode_keep_take(fs->inodes, n, e->fd);
		times_touch_inode(n);
		if (last)
			kept_end(fs, n);
		inode_put(fs->inodes, n, 1);
	} else {
		close(e->fd);
	}
	e->fd = -1;
}

/* Removes the entry and tells its inode. Takes e->fd. */
static int remove_entry(struct fs *fs, struct inode *parent, int dirfd, struct entry *e, int flags)
{
	int rc = e->probed.kind == NODE_SPARSE ? -EROFS : 0;

	if (rc >= 0 && unlinkat(dirfd, e->backing, flags) < 0) {
		rc = -errno;
		if (rc == -ENOTEMPTY && hidden_clear(dirfd, e->backing) == 0)
			rc = unlinkat(dirfd, e->backing, flags) < 0 ? -errno : 0;
	}
	if (rc >= 0 && e->probed.kind != NODE_PLAIN)
		sidecar_remove(dirfd, e->backing);
	if (rc >= 0)
		ops_unlinked(fs, parent, e);
	else
		close(e->fd);
	return rc;
}

static void remove_name(fuse_req_t req, fuse_ino_t parent_ino, const char *name, int flags)
{
	struct fs *fs = ops_fs(req);
	struct inode *parent = ops_inode(fs, parent_ino);
	struct finder finder = fs_finder(fs);
	struct entry e;

	int dirfd = inode_pin(fs->inodes, parent);
	int rc = dirfd;
	if (rc >= 0) {
		inodes_rename_begin(fs->inodes); /* not earlier: inode_pin waits for these to end */
		rc = entry_find(&finder, dirfd, name, &e);
		if (rc >= 0)
			rc = remove_entry(fs, parent, dirfd, &e, flags);
		inodes_rename_end(fs->inodes);
		inode_unpin(fs->inodes, parent);
	}
	fuse_reply_err(req, rc < 0 ? -rc : 0);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 0);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, AT_REMOVEDIR);
}

/* A further name gets the suffix of the existing one, `name`, which is "" if we know none. */
static const char *suffix_to_link(const char *name, enum node_kind kind)
{
	if (*name)
		return names_suffix(name);
	return kind == NODE_ARRAY ? NAMES_ARRAY_SUFFIX : NAMES_NEW_SUFFIX;
}

/* A further name for the file behind `path`, shown as `shown` in the directory `dirfd`. */
static int link_as(const struct inode *n, const char *path, int dirfd, const char *suffix,
		   const char *shown)
{
	char backing[NAME_MAX + 1];

	TRY(names_for(inode_kind(n), n->type, suffix, shown, backing));
	return linkat(AT_FDCWD, path, dirfd, backing, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* As for a new frame (make.c): where the name with its suffix is taken, tries the next suffix. */
static int link_free(struct fs *fs, struct inode *n, int fd, int dirfd, const char *shown)
{
	char name[NAME_MAX + 1], path[FD_PATH_MAX];
	const char *suffix;

	inode_name(fs->inodes, n, name);
	fd_proc_path(fd, path);
	int rc = link_as(n, path, dirfd, suffix_to_link(name, inode_kind(n)), shown);
	if (inode_kind(n) != NODE_FRAME)
		return rc;
	for (unsigned i = 0; rc == -EEXIST && (suffix = names_frame_suffix(i)); i++)
		rc = link_as(n, path, dirfd, suffix, shown);
	return rc;
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino), *parent = ops_inode(fs, newparent);
	struct fuse_entry_param e;

	(void)absent_take(&fs->absent, parent, newname);
	int dirfd = inode_pin(fs->inodes, parent);
	int fd = dirfd < 0 ? dirfd : inode_pin(fs->inodes, n);
	int rc = fd;
	if (rc >= 0) {
		rc = link_free(fs, n, fd, dirfd, newname);
		if (rc >= 0)
			ops_changed(fs, n, fd);
		if (rc >= 0)
			rc = ops_enter_found(fs, parent, dirfd, newname, &e);
		inode_unpin(fs->inodes, n);
	}
	if (dirfd >= 0)
		inode_unpin(fs->inodes, parent);
	ops_reply_entry(req, rc, &e);
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);
	char target[PATH_MAX + 1];

	int fd = inode_pin(fs->inodes, n);
	ssize_t len = fd;
	if (fd >= 0) {
		len = readlinkat(fd, "", target, PATH_MAX);
		len = len < 0 ? -errno : len;
		inode_unpin(fs->inodes, n);
	}
	if (len < 0) {
		fuse_reply_err(req, (int)-len);
		return;
	}
	target[len] = 0;
	fuse_reply_readlink(req, target);
}
