#include "fs/ops/ops.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/meter.h"
#include "frame/held.h"
#include "fs/background/keeper.h"
#include "fs/stats.h"
#include "fs/workspace.h"

#include <sys/statvfs.h>

#define TELL_AGAIN_NS (60 * CLOCK_SECOND)

struct inode *ops_inode(struct fs *fs, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? inodes_root(fs->inodes) : (struct inode *)(uintptr_t)ino;
}

int ops_errno(int rc)
{
	if (rc == -EBADMSG || rc == -ENOTSUP)
		return EIO;
	return rc == -E2BIG ? EFBIG : -rc;
}

bool ops_is_damage(int rc)
{
	return rc == -EBADMSG || rc == -ENOTSUP || rc == -EIO;
}

void ops_tell_limit(int rc)
{
	static _Atomic uint64_t next; /* meter_now */

	if (rc != -EMFILE && rc != -ENFILE && (rc != -ENOMEM || !held_has_refused()))
		return;
	uint64_t now = meter_now(), due = atomic_load(&next);
	if (now < due || !atomic_compare_exchange_strong(&next, &due, now + TELL_AGAIN_NS))
		return; /* told lately, or another thread does it */
	if (rc == -ENOMEM)
		log_err("no memory to open another file: indexes and metalayers of those that are "
			"open take %llu MiB, at most %llu; a larger -o cache= allows as much more",
			(unsigned long long)held_bytes() >> 20,
			(unsigned long long)held_most() >> 20);
	else if (rc == -EMFILE)
		log_err("too many open files: the limit of the daemon is %lu descriptors; "
			"ulimit -Hn raises it, before it mounts",
			backing_raise_nofile());
	else
		log_err("too many open files in the system: sysctl fs.file-max raises that limit");
}

void ops_log(struct fs *fs, struct inode *n, const char *what, int rc)
{
	char name[INODE_LOG_NAME_MAX], text[ERR_TEXT_MAX];

	/* Errors of the application: a length beyond the limit, missing permissions. */
	if (rc == -EFBIG || rc == -EROFS || rc == -EACCES)
		return;
	if (rc == -E2BIG) /* has been logged */
		return;
	inode_log_name(fs->inodes, n, name);
	log_err("%s: %s: %s", name, what, err_text(rc, text));
}

/* How many requests for which nobody waits, such as read-ahead, the kernel may send at a time. */
#define BACKGROUND_MOST 64

static void want(struct fuse_conn_info *conn, unsigned cap)
{
	conn->want |= conn->capable & cap;
}

/*
 * The thread sanitizer sees that an answer comes before the kernel's next request if it is written,
 * but not if it is spliced: it would report a race between the last read of a handle and its
 * release.
 */
#ifdef __SANITIZE_THREAD__
#define SPLICE_ANSWERS 0
#else
#define SPLICE_ANSWERS FUSE_CAP_SPLICE_WRITE
#endif

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	want(conn, FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_WRITEBACK_CACHE |
			   FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
			   FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ATOMIC_O_TRUNC |
			   FUSE_CAP_CACHE_SYMLINKS | SPLICE_ANSWERS |
			   FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_POSIX_ACL);
	if (caller_own_umask())
		want(conn, FUSE_CAP_DONT_MASK);
	/*
	 * ACLs are stored by the backing file system and enforced by the kernel. In a directory
	 * with a default ACL the umask does not apply, so we get it separately from the mode.
	 *
	 * File locks of all kinds are left to the kernel: a blocking lock in a daemon can't be
	 * interrupted. wire.h decides who clears set-id bits. We invalidate the kernel's pages
	 * ourselves, at open, rather than let it guess from mtime.
	 */
	conn->want &= ~(unsigned)(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS |
				  FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_AUTO_INVAL_DATA |
				  FUSE_CAP_SPLICE_READ);
	/* must equal that of the mount options, or libfuse gives up */
	conn->max_read = (unsigned)fs->opt.max_read;
	conn->max_background = BACKGROUND_MOST;
	conn->congestion_threshold = BACKGROUND_MOST / 4 * 3;
	conn->time_gran = 1;
	keeper_wake(fs->keeper);
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);
	struct statvfs st;

	int rc = inode_pin(fs->inodes, n); /* another file system may be mounted at this inode */
	if (rc >= 0) {
		rc = fstatvfs(rc, &st) < 0 ? -errno : 0;
		inode_unpin(fs->inodes, n);
	}
	if (rc < 0) {
		fuse_reply_err(req, -rc);
		return;
	}
	st.f_namemax = NAMES_MAX;
	fuse_reply_statfs(req, &st);
}

#define BIT(name) (1ull << OPS_KIND_##name)

static const uint64_t changing =
	BIT(setattr) | BIT(mknod) | BIT(mkdir) | BIT(symlink) | BIT(unlink) | BIT(rmdir) |
	BIT(rename) | BIT(link) | BIT(create) | BIT(write) | BIT(fallocate) |
	BIT(copy_file_range) | BIT(setxattr) | BIT(removexattr)
#ifdef HAVE_TMPFILE
	| BIT(tmpfile)
#endif
	;

/*
 * A remount may turn off the kernel's -o ro, but not ours: other readers may use the directory, and
 * an intent log that was left there has not been applied.
 */
static bool is_refused(fuse_req_t req, enum ops_kind kind)
{
	return changing >> kind & 1 && ops_fs(req)->opt.read_only;
}

/*
 * Each callback as the session calls it: timed, and counted first, so that once a request is
 * answered it has been counted.
 */
#define OPS_COUNTED(name, params, args, timer)                                                     \
	static void counted_##name params                                                          \
	{                                                                                          \
		uint64_t start = meter_now();                                                      \
		stats_add(STATS_REQUESTS + (int)OPS_KIND_##name, 1);                               \
		if (is_refused(req, OPS_KIND_##name))                                              \
			fuse_reply_err(req, EROFS);                                                \
		else                                                                               \
			op_##name args;                                                            \
		workspace_trim();                                                                  \
		meter_time(STATS_TIME_##timer, start);                                             \
	}
OPS_EACH(OPS_COUNTED)

#define OPS_ROW(name, params, args, timer) .name = counted_##name,
const struct fuse_lowlevel_ops ops_table = {
	.init = op_init, /* no .access: with default_permissions the kernel does not ask */
	OPS_EACH(OPS_ROW)
};
