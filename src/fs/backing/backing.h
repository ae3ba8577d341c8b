/*
 * The backing directory. Every name is resolved relative to an open directory
 * and never through a symlink, so nothing outside can be reached.
 */
#ifndef FS_BACKING_BACKING_H
#define FS_BACKING_BACKING_H

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define BACKING_ABOVE 64 /* directories, the nearest: deeper trees than that are rare */

struct backing {
	int root;        /* O_PATH descriptor of the directory           */
	int lock;        /* holds the lock against other daemons; -1 none */
	int above[BACKING_ABOVE]; /* the same, of the directories above (claim.h) ... */
	unsigned nabove; /* ... that may be read                         */
	int proc;        /* O_PATH descriptor of /proc/self/fd           */
	bool is_root;    /* we run as root, and create files as their callers */
	_Atomic bool labelled; /* files may have SELinux labels             */
	_Atomic dev_t own_dev; /* device number of our mount; 0 until known */
	_Atomic uint64_t own_mount; /* its id, which its copies do not have; 0: not known */
};

#define BACKING_LABEL "security.selinux"

NODISCARD int backing_open(struct backing *b, const char *path);
void backing_close(struct backing *b);

/* Raises the soft limit of descriptors to the hard one. Returns the limit. */
unsigned long backing_raise_nofile(void);

/*
 * An O_PATH descriptor of `name` in `dirfd`, not following a symlink, and what backing_look says.
 */
NODISCARD int backing_find(const struct backing *b, int dirfd, const char *name, struct stat *st,
			   uint64_t *birth);

/* The file behind an O_PATH descriptor, opened with `flags`; not for symlinks. */
NODISCARD int backing_reopen(const struct backing *b, int fd, int flags);

/* stat_fd, where a time is too large for the C library: it becomes the last (or first) there is. */
NODISCARD int backing_stat_wide(int fd, struct stat *st);

static inline int stat_fd(int fd, struct stat *st)
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
 * True: a file that is changed now may keep this time stamp, since the clock of file systems goes
 * in steps, of less than BACKING_STEP_NS. A stamp in the future counts as fresh, too.
 */
#define BACKING_STEP_NS 50000000u
bool backing_is_fresh(struct timespec stamp);

/*
 * Attributes of an open file, and when it was created, in ns since 1970; 0: its file system does
 * not record that. One call for both.
 */
NODISCARD int backing_look(int fd, struct stat *st, uint64_t *birth);
uint64_t backing_birth(int fd);

/*
 * True: the file system is one of those whose files are known to keep their inode numbers, also
 * after the next mount. FUSE may number files in the order of lookups, FAT by where their directory
 * entry is.
 */
bool backing_numbers_last(const struct backing *b);

#endif
