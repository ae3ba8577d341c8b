#include "fs/backing/backing.h"

#include "base/clock.h"
#include "base/log.h"

#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

int backing_open(struct backing *b, const char *path)
{
	*b = (struct backing){.root = -1, .proc = -1, .lock = -1, .is_root = geteuid() == 0};
	b->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->root < 0)
		return -errno;
	/* with SELinux on it always has one */
	b->labelled = getxattr(path, BACKING_LABEL, NULL, 0) >= 0;
	b->proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return b->proc < 0 ? -errno : 0;
}

/*
 * Beside the lock, a daemon that serves says which mount is its own: by a record lock, shared by
 * those that only read, on the byte of the mount's device number. One that is about to end says so
 * by another, that far behind. A third is on the byte of its process number.
 */
#define ENDING ((off_t)1 << 48)
#define PROCESS ((off_t)1 << 49)

static void set_byte(const struct backing *b, off_t at, short type)
{
	struct flock own = {.l_type = type, .l_start = at, .l_len = 1};

	if (b->lock >= 0 && b->own_dev)
		(void)fcntl(b->lock, F_OFD_SETLK, &own);
}

static void set_own(const struct backing *b, off_t behind, short type)
{
	set_byte(b, behind + (off_t)b->own_dev, type);
}

void backing_tell_mount(const struct backing *b)
{
	set_byte(b, PROCESS + getpid(), F_RDLCK);
	set_own(b, 0, F_RDLCK);
}

void backing_tell_ending(const struct backing *b)
{
	set_own(b, ENDING, F_RDLCK);
	set_own(b, 0, F_UNLCK);
}

void backing_tell_unmounted(const struct backing *b)
{
	set_own(b, 0, F_UNLCK);
	set_own(b, ENDING, F_UNLCK);
	set_byte(b, PROCESS + getpid(), F_UNLCK);
}

/* Those of session_signals. */
#define ENDING_SIGNALS (1ull << (SIGTERM - 1) | 1ull << (SIGINT - 1) | 1ull << (SIGHUP - 1))

/*
 * True: a signal that asks the daemon of the directory to end waits there to be seen. It is taken
 * (session.c) when ENDING has been said: whoever looks for both, in this order, misses none.
 */
static bool is_asked_to_end(int lock)
{
	struct flock any = {.l_type = F_WRLCK, .l_start = PROCESS};
	unsigned long long waiting = 0;
	char line[256];

	if (fcntl(lock, F_OFD_GETLK, &any) < 0 || any.l_type != F_RDLCK)
		return false;
	snprintf(line, sizeof line, "/proc/%lld/status", (long long)(any.l_start - PROCESS));
	FILE *status = fopen(line, "re");
	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "ShdPnd: %llx", &waiting) == 1)
			break;
	if (status)
		fclose(status);
	return waiting & ENDING_SIGNALS;
}

/* Where a FUSE file system of that device number is mounted, as the kernel spells it. */
static bool find_mount_of(dev_t dev, char at[static PATH_MAX])
{
	char *line = NULL;
	size_t cap = 0;
	unsigned hi, lo;
	bool found = false;

	FILE *table = fopen("/proc/self/mountinfo", "re");
	while (table && !found && getline(&line, &cap, table) > 0)
		found = sscanf(line, "%*d %*d %u:%u %*s %4095s", &hi, &lo, at) == 3 &&
			makedev(hi, lo) == dev && strstr(line, " - fuse");
	free(line);
	if (table)
		fclose(table);
	return found;
}

/*
 * True: the daemon that has the lock serves a mount that is there, and will not end by itself. Not
 * seen from another mount namespace.
 */
static bool is_mounted(const struct backing *b, char at[static PATH_MAX])
{
	struct flock any = {.l_type = F_WRLCK, .l_len = ENDING};

	return fcntl(b->lock, F_OFD_GETLK, &any) == 0 && any.l_type == F_RDLCK &&
	       find_mount_of((dev_t)any.l_start, at);
}

bool backing_is_ending(const char *path, dev_t mount)
{
	struct flock any = {.l_type = F_WRLCK, .l_start = ENDING + (off_t)mount, .l_len = 1};
	char at[PATH_MAX];

	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool told = is_asked_to_end(fd) ||
		    (fcntl(fd, F_OFD_GETLK, &any) == 0 && any.l_type == F_RDLCK);
	close(fd);
	return told && find_mount_of(mount, at);
}

#define LOCK_TRIES 300 /* of 100 ms */
#define LOCK_SAYS 10   /* tries after which whoever waits is told why */

int backing_lock(struct backing *b, bool shared, char holder[static PATH_MAX])
{
	int how = (shared ? LOCK_SH : LOCK_EX) | LOCK_NB;

	holder[0] = 0;
	b->lock = openat(b->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->lock < 0)
		return -errno;
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(b->lock, how) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return 0; /* not every file system has locks */
		if (is_mounted(b, holder) && !is_asked_to_end(b->lock) && is_mounted(b, holder))
			return -EBUSY;
		holder[0] = 0;
		if (i == LOCK_SAYS)
			log_info("waiting for another cframefs to be done with the directory");
		usleep(100 * 1000);
	}
	return -EBUSY;
}

void backing_close(struct backing *b)
{
	if (b->lock >= 0)
		close(b->lock);
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

int backing_find(const struct backing *b, int dirfd, const char *name, struct stat *st,
		 uint64_t *birth)
{
	int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = backing_look(fd, st, birth);
	/* A mount point inside its own backing directory: to look into it we would wait for us. */
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
	if (stamp.tv_sec > now.tv_sec) /* another machine's clock, or a time that somebody set */
		return true;
	return (int64_t)(clock_ns(now) - clock_ns(stamp)) < BACKING_STEP_NS;
}

static struct timespec timespec_of(struct statx_timestamp t)
{
	return (struct timespec){t.tv_sec, t.tv_nsec};
}

int backing_look(int fd, struct stat *st, uint64_t *birth)
{
	struct statx x;

	*birth = 0;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
		return stat_fd(fd, st); /* not every sandbox knows the call */
	*st = (struct stat){
		.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.st_ino = x.stx_ino,
		.st_mode = x.stx_mode,
		.st_nlink = x.stx_nlink,
		.st_uid = x.stx_uid,
		.st_gid = x.stx_gid,
		.st_rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor),
		.st_size = (off_t)x.stx_size,
		.st_blksize = (blksize_t)x.stx_blksize,
		.st_blocks = (blkcnt_t)x.stx_blocks,
		.st_atim = timespec_of(x.stx_atime),
		.st_mtim = timespec_of(x.stx_mtime),
		.st_ctim = timespec_of(x.stx_ctime),
	};
	if (x.stx_mask & STATX_BTIME)
		*birth = clock_ns(timespec_of(x.stx_btime));
	return 0;
}

uint64_t backing_birth(int fd)
{
	struct stat st;
	uint64_t birth;

	return backing_look(fd, &st, &birth) < 0 ? 0 : birth;
}

bool backing_numbers_last(const struct backing *b)
{
	static const uint32_t known[] = {
		EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
		TMPFS_MAGIC, RAMFS_MAGIC, OVERLAYFS_SUPER_MAGIC, NFS_SUPER_MAGIC,
		0x2FC12FC1 /* ZFS */, 0xCA451A4E /* bcachefs */,
	};
	struct statfs fs;
	bool found = false;

	if (fstatfs(b->root, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		found |= (uint32_t)fs.f_type == known[i];
	return found;
}
