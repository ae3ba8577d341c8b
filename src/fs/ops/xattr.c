/*
 * Extended attributes. Those of a file live on its backing file; some names are answered by us
 * (file/property.h), and some have a meaning for us, too.
 */
#include "fs/ops/ops.h"

#include "base/clock.h"
#include "base/log.h"
#include "frame/durable.h"
#include "fs/background/recompress_file.h"
#include "fs/file/property.h"
#include "fs/inode/caps.h"
#include "fs/stats.h"

#include <limits.h>
#include <sys/xattr.h>

/*
 * Pins the inode, until inode_unpin. With an O_PATH descriptor extended attributes are reached by
 * its /proc name, which for a symlink is the link itself.
 */
static int xattr_path(struct fs *fs, struct inode *n, char path[static FD_PATH_MAX])
{
	int fd = inode_pin(fs->inodes, n);
	if (fd >= 0)
		fd_proc_path(fd, path);
	return fd;
}

#define ACCESS_ACL "system.posix_acl_access"

static bool is_acl(const char *name)
{
	return strncmp(name, "system.posix_acl_", 17) == 0;
}

/*
 * Clears the setgid bit, as a kernel file system does after the ACL of a file or directory was set
 * by a user who is not in its group.
 */
static void clear_setgid(fuse_req_t req, struct inode *n, int fd)
{
	struct stat st;

	if (stat_fd(fd, &st) < 0)
		return;
	caps_show_mode(n, &st);
	if (st.st_mode & S_ISGID && !ops_in_group(req, st.st_gid))
		/* the ACL is set, whatever comes of this */
		IGNORE(caps_set_mode(n, fd, st.st_mode & 07777 & ~(mode_t)S_ISGID));
}

static bool is_stats(fuse_ino_t ino, const char *name)
{
	return ino == FUSE_ROOT_ID && strcmp(name, STATS_XATTR) == 0;
}

/* What we keep in the backing directory is hidden in the mount. */
static bool is_hidden(const char *name)
{
	return strcmp(name, RECOMPRESS_MARK) == 0 || strcmp(name, DURABLE_ATTRIBUTE) == 0;
}

/* Setting a name of ours that has no effect, such as that of another option, would mislead. */
static bool may_not_be_set(const struct inode *n, const char *name)
{
	return property_may_be(n, name) || is_hidden(name) ||
	       (n->type == S_IFDIR && strncmp(name, WISH_PREFIX, sizeof WISH_PREFIX - 1) == 0);
}

static int refuse_to_set(struct fs *fs, struct inode *n, const char *name)
{
	char who[INODE_LOG_NAME_MAX];

	inode_log_name(fs->inodes, n, who);
	log_info("%s: %s refused: known: pipeline, chunksize, blocksize, tune", who, name);
	return -EPERM;
}

/* True: the attribute says how a file, or the files of a directory, are to be stored. */
static bool is_wish(const struct inode *n, const char *name)
{
	return (inode_kind(n) == NODE_FRAME || n->type == S_IFDIR) && wish_word(name);
}

/*
 * EOPNOTSUPP is passed on: here it comes from the backing file system and is about attributes, not
 * about a frame that cannot be read.
 */
static void reply_change(fuse_req_t req, int rc)
{
	fuse_reply_err(req, rc == -EBADMSG ? EIO : rc < 0 ? -rc : 0);
}

/*
 * Before the first write(2) after each fetch of attributes, the kernel asks whether there are file
 * capabilities to remove; a kernel that keeps no answer (wire.h), before each write. That there are
 * none is remembered for as long as attributes are.
 */
static bool is_caps(const char *name)
{
	return strcmp(name, CAPS_XATTR) == 0;
}

/*
 * `ls -l` asks for the label of each file, one request each, until it is told that this file system
 * has none. So it is told that if the backing directory has none, until somebody sets one.
 */
static bool is_label(const char *name)
{
	return strcmp(name, BACKING_LABEL) == 0;
}

static int set_stored(fuse_req_t req, struct inode *n, const char *name, struct view value,
		      int flags)
{
	struct fs *fs = ops_fs(req);
	char path[FD_PATH_MAX];
	int fd = xattr_path(fs, n, path);

	TRY(fd);
	int rc = is_caps(name) ? caps_set(n, fd, value, flags) :
		 setxattr(path, name, value.p, value.n, flags) < 0 ? -errno : 0;
	if (rc >= 0 && strcmp(name, ACCESS_ACL) == 0)
		clear_setgid(req, n, fd);
	if (rc >= 0 && is_label(name))
		fs->backing.labelled = true;
	if (rc >= 0)
		ops_changed(fs, n, fd);
	inode_unpin(fs->inodes, n);
	return rc;
}

static int remove_stored(struct fs *fs, struct inode *n, const char *name)
{
	char path[FD_PATH_MAX];
	int fd = xattr_path(fs, n, path);

	TRY(fd);
	int rc = is_caps(name) ? caps_remove(n, fd) : removexattr(path, name) < 0 ? -errno : 0;
	if (rc >= 0)
		ops_changed(fs, n, fd);
	inode_unpin(fs->inodes, n);
	return rc;
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		 int flags)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);

	if (is_wish(n, name)) {
		struct property_change x = {name, value, size, flags};
		reply_change(req, property_change(fs, n, &x));
		return;
	}
	int rc = may_not_be_set(n, name)
			 ? refuse_to_set(fs, n, name)
			 : set_stored(req, n, name, view_of(value, size), flags);
	fuse_reply_err(req, rc < 0 ? -rc : 0);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);

	if (is_wish(n, name)) {
		struct property_change x = {.name = name};
		reply_change(req, property_change(fs, n, &x));
		return;
	}
	int rc = is_hidden(name) ? -ENODATA : remove_stored(fs, n, name);
	fuse_reply_err(req, rc < 0 ? -rc : 0);
}

/*
 * Replies with a value or a list, of which `value` has the first `size` bytes; `got`: its length,
 * or an error. `size` 0 asks for the length.
 */
static void reply_xattr(fuse_req_t req, ssize_t got, const struct buf *value, size_t size)
{
	if (got < 0)
		fuse_reply_err(req, (int)-got);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)got);
	else if (size < (size_t)got)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, (const char *)value->p, (size_t)got);
}

static ssize_t get_ours(struct fs *fs, struct inode *n, const char *name, struct buf *value)
{
	int rc = property_get(fs, n, name, value);
	return rc < 0 ? -ops_errno(rc) : (ssize_t)value->n;
}

/*
 * The application asks for the length first, and then for the value, which may have grown by then.
 */
static ssize_t get_stats(struct fs *fs, size_t size, struct buf *value)
{
	TRY(stats_print(fs, value));
	return (ssize_t)value->n + (size ? 0 : 512);
}

static ssize_t get_caps(struct fs *fs, struct inode *n, size_t size, struct buf *value)
{
	if (caps_known_none(n))
		return -ENODATA;
	TRY(buf_reserve(value, size));
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	ssize_t rc = caps_get(n, fd, span_of(value->p, size),
			      clock_from_seconds(fs->opt.attr_timeout));
	inode_unpin(fs->inodes, n);
	return rc;
}

static ssize_t read_stored(struct fs *fs, struct inode *n, const char *name, struct span value)
{
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	ssize_t rc = fd_getxattr(fd, name, value);
	inode_unpin(fs->inodes, n);
	/*
	 * The kernel asks for ACLs before it grants access, and takes any other error for a
	 * refusal.
	 */
	return rc == -EOPNOTSUPP && is_acl(name) ? -ENODATA : rc;
}

/* True: we answer for the name, and the backing file has no value that takes precedence. */
static bool is_told(struct fs *fs, struct inode *n, const char *name)
{
	return property_may_be(n, name) &&
	       !(is_wish(n, name) && read_stored(fs, n, name, (struct span){0}) >= 0);
}

static ssize_t get_stored(struct fs *fs, struct inode *n, const char *name, size_t size,
			  struct buf *value)
{
	TRY(buf_reserve(value, size));
	return read_stored(fs, n, name, span_of(value->p, size));
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);
	struct buf value = {0};
	ssize_t rc;

	if (is_stats(ino, name))
		rc = get_stats(fs, size, &value);
	else if (is_label(name) && !fs->backing.labelled)
		rc = -EOPNOTSUPP;
	else if (is_hidden(name))
		rc = -ENODATA;
	else if (is_caps(name))
		rc = get_caps(fs, n, size, &value);
	else if (is_told(fs, n, name))
		rc = get_ours(fs, n, name, &value);
	else
		rc = get_stored(fs, n, name, size, &value);
	reply_xattr(req, rc, &value, size);
	buf_free(&value);
}

/*
 * Also hides what only root may see, as a kernel file system does; the backing one takes us for
 * root.
 */
static bool is_listed(const char *name, bool by_root)
{
	return !is_hidden(name) && (by_root || strncmp(name, "trusted.", 8) != 0);
}

static size_t without_hidden(char *list, size_t n, bool by_root)
{
	size_t kept = 0;

	for (size_t at = 0, len; at < n; at += len) {
		len = strnlen(list + at, n - at) + 1;
		len = min_u64(len, n - at);
		if (!is_listed(list + at, by_root))
			continue;
		memmove(list + kept, list + at, len);
		kept += len;
	}
	return kept;
}

/* All names of the file, whatever room the application has for those that are listed. */
static ssize_t list_stored(struct fs *fs, struct inode *n, struct buf *list)
{
	char path[FD_PATH_MAX];

	TRY(buf_reserve(list, XATTR_LIST_MAX));
	TRY(xattr_path(fs, n, path));
	ssize_t rc = listxattr(path, (char *)list->p, XATTR_LIST_MAX);
	rc = rc < 0 ? -errno : rc;
	inode_unpin(fs->inodes, n);
	return rc;
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct fs *fs = ops_fs(req);
	struct buf list = {0};

	ssize_t rc = list_stored(fs, ops_inode(fs, ino), &list);
	if (rc > 0)
		rc = (ssize_t)without_hidden((char *)list.p, (size_t)rc,
					     fuse_req_ctx(req)->uid == 0);
	reply_xattr(req, rc, &list, size);
	buf_free(&list);
}
