/*
 * The backing directory. Every name is resolved relative to an open directory and never through a
 * symlink, so nothing outside can be reached.
 */
#ifndef FS_BACKING_BACKING_H
#define FS_BACKING_BACKING_H

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define BACKING_ABOVE 64 /* how many directories above are marked: deeper trees are rare */

struct backing {
	int root;        /* O_PATH descriptor of the directory           */
	int lock;        /* descriptor that holds the lock against other daemons; -1: none */
	int above[BACKING_ABOVE]; /* the same for the directories above (claim.h) ... */
	unsigned nabove; /* ... that may be read                         */
	int machines;    /* descriptor of the lock that other machines see (machines.h); -1: none */
	int proc;        /* O_PATH descriptor of /proc/self/fd           */
	bool is_root;    /* we run as root, and create files as their callers */
	/*
	 * The file system is known to keep inode numbers, even across mounts, and to have one for
	 * all names of a file. FUSE may number files in the order of lookups, or access an open
	 * file by the name with which it was opened; FAT numbers files by the position of the
	 * directory entry.
	 */
	bool numbers_last;
	_Atomic bool labelled; /* files may have SELinux labels             */
	_Atomic dev_t own_dev; /* device number of our mount; 0 until known */
	_Atomic uint64_t own_mount; /* mount id, which bind mounts do not share; 0: not known */
};

#define BACKING_NONE ((struct backing){.root = -1, .lock = -1, .machines = -1, .proc = -1})

#define BACKING_LABEL "security.selinux"

NODISCARD int backing_open(struct backing *b, const char *path);
void backing_close(struct backing *b);

/* FUSE_SUPER_MAGIC, which the headers of Linux 5.10 lack. */
#define BACKING_FUSE 0x65735546

/* True: `fd` is on a file system of one of these n types (statfs(2), f_type). */
bool backing_is_on(int fd, const uint32_t *types, size_t n);

/* Raises the soft limit of descriptors to the hard one. Returns the limit. */
unsigned long backing_raise_nofile(void);

/*
 * Makes the kernel grow our descriptor table to its final size, at most `limit`. Call it before
 * there are threads, and after the last fork, which shrinks the table: in a process with threads,
 * the kernel waits for all processors whenever it doubles the table, which delays that open(2) by
 * 10 to 25 ms.
 */
void backing_reserve_fds(const struct backing *b, unsigned long limit);

/*
 * For log lines: the path of an entry from the backing directory on; its name, if that is not
 * known. `fd`: a descriptor of it, or -1.
 */
void backing_log_name(const struct backing *b, int fd, const char *name,
		      char out[static PATH_MAX]);

/*
 * Returns an O_PATH descriptor of `name` in `dirfd`, without following a symlink, and sets *st and
 * *birth as backing_look does.
 */
NODISCARD int backing_find(const struct backing *b, int dirfd, const char *name, struct stat *st,
			   uint64_t *birth);

/* Opens the file behind an O_PATH descriptor with `flags`. Not for symlinks. */
NODISCARD int backing_reopen(const struct backing *b, int fd, int flags);

/*
 * For stat_fd, where a time does not fit the C library's type: it becomes the last (or first) that
 * does.
 */
NODISCARD int backing_stat_wide(int fd, struct stat *st);

NODISCARD static inline int stat_fd(int fd, struct stat *st)
{
	if (fstatat(fd, "", st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return errno == EOVERFLOW ? backing_stat_wide(fd, st) : -errno;
}

static inline bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/*
 * True: a file that is changed now may keep this time stamp, since file systems' clocks advance in
 * steps, of less than BACKING_STEP_NS. A stamp in the future counts as fresh, too.
 */
#define BACKING_STEP_NS (50 * CLOCK_MS)
bool backing_is_fresh(struct timespec stamp);

/*
 * True: this error of a call with a name says nothing about what has the name, and the next attempt
 * may succeed. So do all that are not known to.
 */
bool backing_is_temporary(int rc);

/*
 * The attributes of an open file, and the time when it was created, in ns since 1970, in one call.
 * 0: its file system does not record that time.
 */
NODISCARD int backing_look(int fd, struct stat *st, uint64_t *birth);
uint64_t backing_birth(int fd);

#endif
