/*
 * What a change of a file takes away: set-id bits, unless the caller may keep them, and file
 * capabilities.
 *
 * A kernel that leaves this to us (wire.h) still takes capabilities away itself, with a
 * REMOVEXATTR, but for files that it opens with O_TRUNC. Of set-id bits it says so in WRITE,
 * SETATTR, OPEN and CREATE; FALLOCATE and COPY_FILE_RANGE have no place for it, and there we look
 * at who the caller is. Writes to a file that has such bits do not wait in the page cache: they
 * come at once, and say whose they are.
 *
 * A chown that changes nothing takes capabilities, whoever asks, also one who is refused: the
 * kernel's REMOVEXATTR comes before the SETATTR, and looks like any other.
 */
#include "fs/ops.h"
#include "fs/caps.h"
#include "fs/times.h"
#include "fs/wire.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool in_group(fuse_req_t req, gid_t gid)
{
	gid_t list[1024];

	if (fuse_req_ctx(req)->gid == gid)
		return true;
	int n = fuse_req_getgroups(req, sizeof list / sizeof *list, list);
	if (n < 0 || n > (int)(sizeof list / sizeof *list))
		return n >= 0; /* more than we look at: as before */
	for (int i = 0; i < n; i++)
		if (list[i] == gid)
			return true;
	return false;
}

bool ops_in_group(fuse_req_t req, gid_t gid)
{
	return fuse_req_ctx(req)->uid == 0 || in_group(req, gid);
}

/*
 * Root with CAP_FSETID. A user who has the capability in a namespace of his own has another uid
 * here; whom we can't look at keeps nothing.
 */
static bool keeps_bits(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	uint64_t effective = 0;
	char line[256];

	if (ctx->uid != 0)
		return false;
	snprintf(line, sizeof line, "/proc/%d/status", (int)ctx->pid);
	FILE *in = fopen(line, "re");
	if (!in)
		return false;
	while (fgets(line, sizeof line, in) && sscanf(line, "CapEff: %" SCNx64, &effective) != 1)
		;
	fclose(in);
	return effective >> CAP_FSETID & 1;
}

/*
 * Without a group that may execute it the setgid bit means
 * something else, and goes only from who is not in the group.
 */
static mode_t set_id_bits(fuse_req_t req, const struct stat *st)
{
	mode_t bits = st->st_mode & (S_ISUID | S_ISGID);

	if (bits & S_ISGID && !(st->st_mode & S_IXGRP) &&
	    (in_group(req, st->st_gid) || keeps_bits(req)))
		bits &= ~(mode_t)S_ISGID;
	return S_ISREG(st->st_mode) ? bits : 0;
}

/* Who may do it without the kernel's word for it. */
enum right { RIGHT_SAID, RIGHT_OWNER };

/* The descriptor is pinned. 1: there were such bits. */
static int drop_bits(fuse_req_t req, int fd, enum right right)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	char path[BACKING_PATH_MAX];
	struct stat st;

	TRY(stat_fd(fd, &st));
	mode_t bits = set_id_bits(req, &st);
	if (!bits)
		return 0;
	if (right == RIGHT_OWNER && ctx->uid != 0 && ctx->uid != st.st_uid)
		return -EPERM;
	backing_proc_path(fd, path);
	return fchmodat(AT_FDCWD, path, st.st_mode & 07777 & ~bits, 0) < 0 ? -errno : 1;
}

/* The kernel believes its own mode. Attributes only, which waits for nothing. */
static void tell_kernel(struct fs *fs, struct inode *n)
{
	(void)fuse_lowlevel_notify_inval_inode(fs->session, ops_ino(fs, n), -1, 0);
}

static int drop(fuse_req_t req, struct inode *n, enum right right)
{
	struct fs *fs = ops_fs(req);

	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	int rc = drop_bits(req, fd, right);
	inode_unpin(fs->inodes, n);
	if (rc > 0) {
		(void)times_set(n, NULL, NULL);
		tell_kernel(fs, n);
	}
	return rc < 0 ? rc : 0;
}

int ops_drop_said(fuse_req_t req, struct inode *n)
{
	return wire_take_kills() ? drop(req, n, RIGHT_SAID) : 0;
}

int ops_drop_set(fuse_req_t req, struct inode *n, int to_set)
{
	if (wire_is_ours() && to_set == FUSE_SET_ATTR_CTIME)
		return drop(req, n, RIGHT_OWNER);
	return ops_drop_said(req, n);
}

int ops_drop_unsaid(fuse_req_t req, struct inode *n)
{
	struct fs *fs = ops_fs(req);
	struct stat st;

	if (!wire_is_ours())
		return 0;
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	int rc = stat_fd(fd, &st);
	inode_unpin(fs->inodes, n);
	if (rc < 0 || !(st.st_mode & (S_ISUID | S_ISGID)) || keeps_bits(req))
		return rc;
	return drop(req, n, RIGHT_SAID);
}

void ops_drop_truncated(fuse_req_t req, struct inode *n)
{
	bool keeps = wire_is_ours() ? !wire_take_kills() : keeps_bits(req);
	struct fs *fs = ops_fs(req);

	int fd = inode_pin(fs->inodes, n);
	if (fd < 0)
		return;
	bool dropped = caps_remove(n, fd) == 0;
	if (!keeps)
		dropped |= drop_bits(req, fd, RIGHT_SAID) > 0;
	inode_unpin(fs->inodes, n);
	if (dropped)
		tell_kernel(fs, n);
}
