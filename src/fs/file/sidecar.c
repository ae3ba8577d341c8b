#include "fs/file/sidecar.h"

#include "base/log.h"
#include "base/meter.h"
#include "fs/backing/probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNTER_AT 8
#define PATIENCE_NS 30000000000
#define NAP_MAX_US 5000

void sidecar_init(struct sidecar *s)
{
	pthread_rwlockattr_t attr;

	*s = (struct sidecar){.fd = -1};
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&s->turn, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&s->lock, NULL);
}

void sidecar_deinit(struct sidecar *s)
{
	if (s->fd >= 0)
		close(s->fd);
	pthread_mutex_destroy(&s->lock);
	pthread_rwlock_destroy(&s->turn);
}

static bool sidecar_name(const char *backing, char out[static NAME_MAX + 1])
{
	int n = snprintf(out, NAME_MAX + 1, "%s.b2lock", backing);
	return n > 0 && n <= NAME_MAX;
}

/* The counter as it is now; a file that is too short says 0. */
static uint64_t counter(int fd)
{
	uint64_t value;
	return pread(fd, &value, sizeof value, COUNTER_AT) == (ssize_t)sizeof value ? value : 0;
}

/* -1: there is none, or none that can be locked. */
static int open_sidecar(int dirfd, const char *backing)
{
	char name[NAME_MAX + 1];
	struct stat st;

	if (!sidecar_name(backing, name))
		return -1;
	int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EROFS))
		fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* It is open, and was not removed since. */
static bool is_current(struct sidecar *s)
{
	struct stat st;

	pthread_rwlock_rdlock(&s->turn);
	bool current = s->fd >= 0 && fstat(s->fd, &st) == 0 && st.st_nlink > 0;
	pthread_rwlock_unlock(&s->turn);
	return current;
}

void sidecar_look(struct sidecar *s, int dirfd, const char *backing)
{
	struct stat st;

	if (s->there && is_current(s))
		return;
	int fd = open_sidecar(dirfd, backing);
	if (fd < 0 && !s->there)
		return;
	pthread_rwlock_wrlock(&s->turn);
	bool gone = s->fd < 0 || fstat(s->fd, &st) < 0 || st.st_nlink == 0;
	if (gone) {
		if (s->fd >= 0)
			close(s->fd);
		s->fd = fd;
		/* who made it may have changed the frame since we looked */
		s->generation = fd < 0 ? 0 : counter(fd) - 1;
		s->there = fd >= 0;
	} else if (fd >= 0) {
		close(fd);
	}
	pthread_rwlock_unlock(&s->turn);
}

/*
 * Not a blocking flock, which could not be interrupted: whoever holds the lock may itself wait for
 * an answer of ours. False: it was held for all of PATIENCE_NS.
 */
static bool take(int fd, int how)
{
	useconds_t nap = 50;
	uint64_t end = 0;

	while (flock(fd, how | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return true; /* not every file system has locks */
		if (!end)
			end = meter_now() + PATIENCE_NS;
		else if (meter_now() > end)
			return false;
		usleep(nap);
		nap = nap * 2 < NAP_MAX_US ? nap * 2 : NAP_MAX_US;
	}
	return true;
}

static void warn(struct sidecar *s, const char *what)
{
	if (!s->warned)
		log_warn("a lock file is held by another program for too long: %s", what);
	s->warned = true;
}

/* 1, or 0: there is none. `must`: -EAGAIN rather than without the lock. */
static int enter_beside_readers(struct sidecar *s, bool must, bool *changed)
{
	*changed = false;
	if (!s->there)
		return 0;
	pthread_rwlock_rdlock(&s->turn);
	if (s->fd < 0) {
		pthread_rwlock_unlock(&s->turn);
		return 0;
	}
	pthread_mutex_lock(&s->lock);
	bool tries = s->readers == 0 || (must && !s->locked);
	if (tries)
		s->locked = take(s->fd, LOCK_SH);
	if (!s->locked)
		warn(s, must ? "storing has to wait" : "reading without it");
	bool entered = s->locked || !must;
	s->readers += entered;
	*changed = counter(s->fd) != s->generation;
	pthread_mutex_unlock(&s->lock);
	if (!entered)
		pthread_rwlock_unlock(&s->turn);
	return entered ? 1 : -EAGAIN;
}

bool sidecar_enter(struct sidecar *s, bool *changed)
{
	return enter_beside_readers(s, false, changed) > 0;
}

int sidecar_enter_store(struct sidecar *s, bool *changed)
{
	return enter_beside_readers(s, true, changed);
}

void sidecar_leave(struct sidecar *s)
{
	pthread_mutex_lock(&s->lock);
	if (--s->readers == 0)
		(void)flock(s->fd, LOCK_UN);
	pthread_mutex_unlock(&s->lock);
	pthread_rwlock_unlock(&s->turn);
}

void sidecar_seen(struct sidecar *s)
{
	pthread_mutex_lock(&s->lock);
	s->generation = counter(s->fd);
	pthread_mutex_unlock(&s->lock);
}

int sidecar_enter_alone(struct sidecar *s, bool *changed)
{
	*changed = false;
	if (!s->there)
		return 0;
	pthread_rwlock_wrlock(&s->turn);
	bool there = s->fd >= 0;
	if (!there || !take(s->fd, LOCK_EX)) {
		if (there)
			warn(s, "a commit has to wait");
		pthread_rwlock_unlock(&s->turn);
		return there ? -EAGAIN : 0;
	}
	uint64_t now = counter(s->fd);
	uint64_t next = now + 1;
	*changed = now != s->generation;
	/* Readers would miss the change: without the right to tell them we do not write. */
	errno = EIO;
	if (pwrite(s->fd, &next, sizeof next, COUNTER_AT) != (ssize_t)sizeof next) {
		int rc = -errno;
		sidecar_leave_alone(s);
		return rc;
	}
	if (!*changed) /* else it is for sidecar_seen to say */
		s->generation = next;
	return 1;
}

void sidecar_leave_alone(struct sidecar *s)
{
	(void)flock(s->fd, LOCK_UN);
	pthread_rwlock_unlock(&s->turn);
}

void sidecar_rename(int dirfd, const char *from, int to_dirfd, const char *to)
{
	char name[NAME_MAX + 1], to_name[NAME_MAX + 1];

	if (sidecar_name(from, name) && sidecar_name(to, to_name))
		(void)renameat(dirfd, name, to_dirfd, to_name);
}

void sidecar_remove(int dirfd, const char *backing)
{
	char name[NAME_MAX + 1];

	if (sidecar_name(backing, name))
		(void)unlinkat(dirfd, name, 0);
}

static bool is_hidden(const struct dirent *d)
{
	size_t stem;

	return d->d_type == DT_REG &&
	       (suffix_of(d->d_name, &stem) == SUFFIX_LOCK || names_is_draft(d->d_name));
}

int sidecar_remove_only(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dp = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	bool only_hidden = true;

	if (!dp) {
		if (fd >= 0)
			close(fd);
		return -ENOTEMPTY;
	}
	while ((d = readdir(dp)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			only_hidden &= is_hidden(d);
	rewinddir(dp);
	while (only_hidden && (d = readdir(dp)))
		if (is_hidden(d)) /* another program may have put a file there meanwhile */
			(void)unlinkat(fd, d->d_name, 0);
	closedir(dp);
	return only_hidden ? 0 : -ENOTEMPTY;
}
