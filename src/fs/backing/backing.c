#include "fs/backing/backing.h"

#include <linux/magic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

bool backing_is_on(int fd, const uint32_t *types, size_t n)
{
	struct statfs fs;
	bool found = false;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		found |= (uint32_t)fs.f_type == types[i];
	return found;
}

static bool numbers_last(int root)
{
	static const uint32_t known[] = {
		EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
		TMPFS_MAGIC, RAMFS_MAGIC, OVERLAYFS_SUPER_MAGIC, NFS_SUPER_MAGIC,
		0x2FC12FC1 /* ZFS */, 0xCA451A4E /* bcachefs */,
	};

	return backing_is_on(root, known, sizeof known / sizeof *known);
}

int backing_open(struct backing *b, const char *path)
{
	*b = BACKING_NONE;
	b->is_root = geteuid() == 0;
	b->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->root < 0)
		return -errno;
	b->numbers_last = numbers_last(b->root);
	/* with SELinux enabled there always is one */
	b->labelled = getxattr(path, BACKING_LABEL, NULL, 0) >= 0;
	b->proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return b->proc < 0 ? -errno : 0;
}

void backing_close(struct backing *b)
{
	if (b->lock >= 0)
		close(b->lock);
	if (b->machines >= 0)
		close(b->machines);
	while (b->nabove)
		close(b->above[--b->nabove]);
	if (b->root >= 0)
		close(b->root);
	if (b->proc >= 0)
		close(b->proc);
	b->root = b->proc = -1;
}

unsigned long backing_raise_nofile(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return 1024;
	if (lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
		(void)getrlimit(RLIMIT_NOFILE, &lim);
	}
	return lim.rlim_cur;
}

/* The table then takes 512 KiB of the kernel's memory. */
#define RESERVED_FDS (1u << 16)

void backing_reserve_fds(const struct backing *b, unsigned long limit)
{
	int last = (int)min_u64(limit, RESERVED_FDS) - 1;
	int fd = fcntl(b->root, F_DUPFD_CLOEXEC, last);

	if (fd >= 0) /* else it grows when it has to */
		close(fd);
}

int backing_find(const struct backing *b, int dirfd, const char *name, struct stat *st,
		 uint64_t *birth)
{
	int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = backing_look(fd, st, birth);
	/*
	 * A mount point inside its own backing directory: looking into it would mean waiting for
	 * ourselves.
	 */
	if (rc >= 0 && b->own_dev && st->st_dev == b->own_dev)
		rc = -ENOENT;
	if (rc < 0) {
		close(fd);
		return rc;
	}
	return fd;
}

int backing_reopen(const struct backing *b, int fd, int flags)
{
	char name[16];
	snprintf(name, sizeof name, "%d", fd);
	int got = openat(b->proc, name, flags | O_NOATIME | O_CLOEXEC);
	if (got < 0 && errno == EPERM) /* O_NOATIME is for the owner and root */
		got = openat(b->proc, name, flags | O_CLOEXEC);
	return got < 0 ? -errno : got;
}

bool backing_is_fresh(struct timespec stamp)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (stamp.tv_sec < now.tv_sec - 1)
		return false;
	if (stamp.tv_sec > now.tv_sec) /* another machine's clock, or a time set by utimensat */
		return true;
	return (int64_t)(clock_ns(now) - clock_ns(stamp)) < (int64_t)BACKING_STEP_NS;
}

bool backing_is_temporary(int rc)
{
	switch (-rc) {
	case 0:
	case ENOENT: /* there is no such name, and maybe cannot be ... */
	case ENAMETOOLONG:
	case EINVAL:
	case EILSEQ:
	case ENOTDIR: /* ... or it is that of something else ... */
	case EISDIR:
	case ELOOP:
	case ENXIO:
	case ENODEV:
	case EACCES: /* ... which we may not use */
	case EPERM:
	case EROFS:
		return false;
	default:
		return rc < 0;
	}
}

/* Where time_t has 32 bits, times beyond its range are clamped, rather than wrapped around. */
static struct timespec timespec_of(struct statx_timestamp t)
{
	const int64_t last = sizeof(time_t) == 4 ? INT32_MAX : INT64_MAX, first = -last - 1;
	int64_t sec = t.tv_sec < first ? first : t.tv_sec > last ? last : t.tv_sec;

	return (struct timespec){(time_t)sec, (long)t.tv_nsec};
}

static void convert(const struct statx *x, struct stat *st)
{
	*st = (struct stat){
		.st_dev = makedev(x->stx_dev_major, x->stx_dev_minor),
		.st_ino = x->stx_ino,
		.st_mode = x->stx_mode,
		.st_nlink = x->stx_nlink,
		.st_uid = x->stx_uid,
		.st_gid = x->stx_gid,
		.st_rdev = makedev(x->stx_rdev_major, x->stx_rdev_minor),
		.st_size = (off_t)x->stx_size,
		.st_blksize = (blksize_t)x->stx_blksize,
		.st_blocks = (blkcnt_t)x->stx_blocks,
		.st_atim = timespec_of(x->stx_atime),
		.st_mtim = timespec_of(x->stx_mtime),
		.st_ctim = timespec_of(x->stx_ctime),
	};
}

int backing_look(int fd, struct stat *st, uint64_t *birth)
{
	struct statx x;

	*birth = 0;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
		return stat_fd(fd, st); /* not every sandbox allows statx */
	convert(&x, st);
	if (x.stx_mask & STATX_BTIME)
		*birth = clock_ns(timespec_of(x.stx_btime));
	return 0;
}

int backing_stat_wide(int fd, struct stat *st)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) < 0)
		return -errno;
	convert(&x, st);
	return 0;
}

uint64_t backing_birth(int fd)
{
	struct stat st;
	uint64_t birth;

	return backing_look(fd, &st, &birth) < 0 ? 0 : birth;
}

/* 0: it is not known. */
static size_t path_of(int fd, char out[static PATH_MAX])
{
	char link[FD_PATH_MAX];

	fd_proc_path(fd, link);
	ssize_t n = fd < 0 ? 0 : readlink(link, out, PATH_MAX - 1);
	out[n < 0 ? 0 : n] = 0;
	return strlen(out);
}

void backing_log_name(const struct backing *b, int fd, const char *name, char out[static PATH_MAX])
{
	char root[PATH_MAX];
	size_t above = path_of(b->root, root), n = path_of(fd, out);

	if (above && strncmp(out, root, above) == 0 && out[above] == '/')
		memmove(out, out + above + 1, n - above); /* with its NUL */
	else
		snprintf(out, PATH_MAX, "%s", name);
}
