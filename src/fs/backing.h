/*
 * The backing directory. Every name is resolved relative to an open directory
 * and never through a symlink, so nothing outside can be reached.
 */
#ifndef FS_BACKING_H
#define FS_BACKING_H

#include "base/err.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

struct backing {
	int root;        /* O_PATH descriptor of the directory           */
	int lock;        /* holds the lock against other daemons; -1 none */
	int proc;        /* O_PATH descriptor of /proc/self/fd           */
	bool is_root;    /* we run as root: callers' identities are worn */
	_Atomic bool labelled; /* files may have labels of SELinux            */
	_Atomic dev_t own_dev; /* device number of our mount; 0 until known    */
};

#define BACKING_LABEL "security.selinux"

NODISCARD int backing_open(struct backing *b, const char *path);
void backing_close(struct backing *b);

/*
 * One daemon writes to a backing directory, or several read. One that was just
 * unmounted may still be writing: waits a while for it. -EBUSY: in use.
 */
NODISCARD int backing_lock(struct backing *b, bool shared);

/* Raises the soft limit of descriptors to the hard one; returns what we have. */
unsigned long backing_raise_nofile(void);

/* An O_PATH descriptor of `name` in `dirfd`, itself if it is a symlink, with its attributes. */
NODISCARD int backing_find(const struct backing *b, int dirfd, const char *name, struct stat *st);

/* The file behind an O_PATH descriptor, opened with `flags`; not for symlinks. */
NODISCARD int backing_reopen(const struct backing *b, int fd, int flags);

/* "/proc/self/fd/N", for calls that know only paths. */
#define BACKING_PATH_MAX 32
void backing_proc_path(int fd, char out[static BACKING_PATH_MAX]);

static inline int stat_fd(int fd, struct stat *st)
{
	return fstatat(fd, "", st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static inline bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/*
 * True: the clock that files are stamped by goes in steps, and may still show that very time: what
 * is changed now may not be seen by the stamp. Later by BACKING_STEP_NS a change has another one.
 */
#define BACKING_STEP_NS 50000000u
bool backing_is_fresh(struct timespec stamp);

/* When a file was made, in ns since 1970; 0: its file system does not tell. */
uint64_t backing_birth(int fd);

/*
 * True: a file system of which it is known that a file has one inode number for life, also after
 * the next mount. FUSE may give numbers in the order of lookups, FAT by where a file's entry lies.
 */
bool backing_numbers_last(const struct backing *b);

/*
 * Creates on behalf of a caller: between enter and leave this thread makes
 * files as `uid` and `gid`, unless we are not root or the caller is. The caller's umask is the
 * thread's from enter on: whether it counts is known to the backing file system, by the directory's
 * default ACL.
 */
struct caller {
	uid_t uid;
	gid_t gid;
	mode_t umask;
	bool worn;
};
void caller_enter(const struct backing *b, struct caller *c);
void caller_leave(struct caller *c);

/*
 * False where a sandbox keeps threads from having a umask
 * of their own: then the kernel has to apply it.
 */
bool caller_own_umask(void);

#endif
