/*
 * The privileges that a file loses when it is changed: set-id bits, unless the caller may keep
 * them, and file capabilities.
 *
 * A kernel that leaves this to us (wire.h) still removes capabilities itself, by a REMOVEXATTR,
 * except for files that it opens with O_TRUNC. Whether to remove set-id bits is a flag in WRITE,
 * SETATTR, OPEN and CREATE. FALLOCATE and COPY_FILE_RANGE have no such flag: there we look at the
 * caller. Writes to a file that has such bits do not wait in the page cache: they are sent at once,
 * with the identity of their caller.
 *
 * A chown that changes nothing removes capabilities even if it is refused: the kernel's REMOVEXATTR
 * comes before the SETATTR, and cannot be told from any other.
 */
#include "fs/ops/ops.h"

#include "fs/inode/caps.h"
#include "fs/inode/times.h"
#include "fs/ops/wire.h"
#include "fs/process.h"

#include <linux/capability.h>

static bool is_among(gid_t gid, const gid_t *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i] == gid)
			return true;
	return false;
}

/*
 * With /etc/subgid, a user namespace lets anybody be in thousands of groups: so look at all of
 * them.
 */
static bool in_group(fuse_req_t req, gid_t gid)
{
	gid_t few[128];
	int room = sizeof few / sizeof *few;

	if (fuse_req_ctx(req)->gid == gid)
		return true;
	int n = fuse_req_getgroups(req, room, few);
	if (n <= room)
		return is_among(gid, few, n);
	gid_t *all = mem_zalloc_array((size_t)n, sizeof *all);
	bool is = all && is_among(gid, all, fuse_req_getgroups(req, n, all) == n ? n : 0);
	mem_free(all);
	return is;
}

bool ops_in_group(fuse_req_t req, gid_t gid)
{
	return fuse_req_ctx(req)->uid == 0 || in_group(req, gid);
}

/*
 * True: the caller has CAP_FSETID, and its writes keep set-id bits. Only uid 0 can have it here: a
 * user with the capability in a user namespace has another uid.
 */
static bool may_keep_bits(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return ctx->uid == 0 && process_bits(ctx->pid, "CapEff:") >> CAP_FSETID & 1;
}

/*
 * The bits to be removed. On a file that its group may not execute the setgid bit means mandatory
 * locking, and is removed only for callers outside that group.
 */
static mode_t set_id_bits(fuse_req_t req, const struct stat *st)
{
	mode_t bits = st->st_mode & (S_ISUID | S_ISGID);

	if (bits & S_ISGID && !(st->st_mode & S_IXGRP) &&
	    (in_group(req, st->st_gid) || may_keep_bits(req)))
		bits &= ~(mode_t)S_ISGID;
	return S_ISREG(st->st_mode) ? bits : 0;
}

/*
 * RIGHT_CHECKED: the kernel has checked that the caller may change the file. RIGHT_OWNER: we check
 * that it is the owner or root.
 */
enum right { RIGHT_CHECKED, RIGHT_OWNER };

/* `fd`: any descriptor of the file. Returns 1 if there were such bits. */
static int drop_bits(fuse_req_t req, struct inode *n, int fd, enum right right)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct stat st;

	TRY(stat_fd(fd, &st));
	caps_show_mode(n, &st);
	mode_t bits = set_id_bits(req, &st);
	if (!bits)
		return 0;
	if (right == RIGHT_OWNER && ctx->uid != 0 && ctx->uid != st.st_uid)
		return -EPERM;
	TRY(caps_set_mode(n, fd, st.st_mode & 07777 & ~bits));
	return 1;
}

/*
 * Call when something was removed, as the kernel trusts the mode that it has cached. Invalidates
 * attributes only, which does not wait.
 */
static void note_removed(struct fs *fs, struct inode *n)
{
	times_touch_inode(n);
	(void)fuse_lowlevel_notify_inval_inode(fs->session, ops_ino(fs, n), -1, 0);
}

static int drop(fuse_req_t req, struct inode *n, enum right right)
{
	struct fs *fs = ops_fs(req);

	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	int rc = drop_bits(req, n, fd, right);
	inode_unpin(fs->inodes, n);
	if (rc > 0)
		note_removed(fs, n);
	return rc < 0 ? rc : 0;
}

int ops_killpriv_write(fuse_req_t req, struct inode *n)
{
	return wire_take_killpriv(ops_fs(req)) ? drop(req, n, RIGHT_CHECKED) : 0;
}

int ops_killpriv_setattr(fuse_req_t req, struct inode *n, int to_set)
{
	if (wire_has_killpriv(ops_fs(req)) && to_set == FUSE_SET_ATTR_CTIME)
		return drop(req, n, RIGHT_OWNER);
	return ops_killpriv_write(req, n);
}

int ops_killpriv_change(fuse_req_t req, struct inode *n)
{
	struct fs *fs = ops_fs(req);
	struct stat st;

	if (!wire_has_killpriv(fs))
		return 0;
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	int rc = stat_fd(fd, &st);
	inode_unpin(fs->inodes, n);
	if (rc >= 0)
		caps_show_mode(n, &st);
	if (rc < 0 || !(st.st_mode & (S_ISUID | S_ISGID)) || may_keep_bits(req))
		return rc;
	return drop(req, n, RIGHT_CHECKED);
}

void ops_killpriv_truncated(fuse_req_t req, struct inode *n)
{
	struct fs *fs = ops_fs(req);
	bool keeps = wire_has_killpriv(fs) ? !wire_take_killpriv(fs) : may_keep_bits(req);

	int fd = inode_pin(fs->inodes, n);
	if (fd < 0)
		return;
	bool dropped = caps_remove(n, fd) == 0;
	if (!keeps)
		dropped |= drop_bits(req, n, fd, RIGHT_CHECKED) > 0;
	inode_unpin(fs->inodes, n);
	if (dropped)
		note_removed(fs, n);
}
