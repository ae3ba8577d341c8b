/* The lock file: opening it, entering and leaving it. For waiting see wait.c. */
#include "fs/sidecar/impl.h"

#include "base/log.h"
#include "fs/backing/backing.h"
#include "fs/inode/inode.h"
#include "fs/sidecar/name.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNTER_AT 8 /* offset of the generation counter */

void sidecar_init(struct sidecar *s, struct relief *relief, struct inodes *inodes,
		  atomic_bool *told)
{
	*s = (struct sidecar){
		.relief = relief, .inodes = inodes, .told = told, .fd = -1,
		.entered = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
}

static void replace_fd(struct sidecar *s, int fd)
{
	int more = (fd >= 0) - (s->fd >= 0);

	if (s->fd >= 0)
		close(s->fd);
	s->fd = fd;
	if (more)
		inodes_others_add(s->inodes, more);
}

void sidecar_deinit(struct sidecar *s)
{
	replace_fd(s, -1);
	pthread_mutex_destroy(&s->lock);
	pthread_rwlock_destroy(&s->entered);
}

/* The generation counter; 0 if the file is too short. */
static uint64_t counter(int fd)
{
	uint64_t value;
	return pread(fd, &value, sizeof value, COUNTER_AT) == (ssize_t)sizeof value ? value : 0;
}

/*
 * A sidecar that cannot be opened counts as none, unless the error says nothing about the file.
 * ESTALE would tell our callers that another program has written the frame, EBADMSG that it is
 * corrupt.
 */
static int judge_missing(int error)
{
	if (error == ESTALE || error == EBADMSG)
		return -EIO;
	return backing_is_temporary(-error) ? -error : 0;
}

/* *fd: -1 if there is none, or if it is not a file that can be locked. */
static int open_sidecar(int dirfd, const char *backing, int *fd)
{
	char name[NAME_MAX + 1];
	struct stat st;

	*fd = -1;
	if (!sidecar_name(backing, name))
		return 0;
	/* Mostly there is none, which this call finds out in half the time. */
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return judge_missing(errno);
	*fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0 && (errno == EACCES || errno == EROFS))
		*fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0)
		return judge_missing(errno);
	if (fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(*fd);
		*fd = -1;
	}
	return 0;
}

/* True: it is open, and has not been removed since. */
static bool is_current(struct sidecar *s)
{
	struct stat st;

	pthread_rwlock_rdlock(&s->entered);
	bool current = s->fd >= 0 && fstat(s->fd, &st) == 0 && st.st_nlink > 0;
	pthread_rwlock_unlock(&s->entered);
	return current;
}

int sidecar_look(struct sidecar *s, int dirfd, const char *backing)
{
	struct stat st;
	int fd;

	if (s->there && is_current(s))
		return 0;
	TRY(open_sidecar(dirfd, backing, &fd));
	if (fd < 0 && !s->there)
		return 0;
	pthread_rwlock_wrlock(&s->entered);
	bool gone = s->fd < 0 || fstat(s->fd, &st) < 0 || st.st_nlink == 0;
	if (gone) {
		replace_fd(s, fd);
		/* a program that has incremented it may have changed the frame since */
		uint64_t count = fd < 0 ? 0 : counter(fd);
		s->generation = count ? count - 1 : 0;
		s->there = fd >= 0;
	} else if (fd >= 0) {
		close(fd);
	}
	pthread_rwlock_unlock(&s->entered);
	return 0;
}

bool sidecar_is_read_only(struct sidecar *s)
{
	char name[NAME_MAX + 1];

	if (!s->there)
		return false;
	pthread_rwlock_rdlock(&s->entered);
	bool is = s->fd >= 0 && (fcntl(s->fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
	sidecar_present_name(s->fd, name);
	pthread_rwlock_unlock(&s->entered);
	if (is && !atomic_exchange(s->told, true))
		log_warn("%s: may not be written, so its frame can only be read", name);
	return is;
}

static bool has_entered(int how)
{
	return how > SIDECAR_NONE;
}

/*
 * Tries once to enter, shared with other readers. `held`: the result if another program has the
 * lock, either -EAGAIN or SIDECAR_WITHOUT.
 */
static int try_beside_readers(struct sidecar *s, int held)
{
	int how = SIDECAR_NONE;

	pthread_rwlock_rdlock(&s->entered);
	if (s->fd >= 0) {
		pthread_mutex_lock(&s->lock);
		if (s->readers == 0 || !s->locked)
			s->locked = sidecar_try_lock(s, LOCK_SH);
		how = s->locked ? SIDECAR_LOCKED : held;
		s->readers += has_entered(how);
		pthread_mutex_unlock(&s->lock);
	}
	if (!has_entered(how))
		pthread_rwlock_unlock(&s->entered);
	return how;
}

/* Goes on without the lock, unless it is free by now. */
static int enter_without(struct sidecar *s)
{
	sidecar_warn(s, SIDECAR_READ);
	return try_beside_readers(s, SIDECAR_WITHOUT);
}

int sidecar_enter(struct sidecar *s)
{
	struct rest r = {0};
	int how;

	if (!s->there)
		return SIDECAR_NONE;
	do
		how = try_beside_readers(s, -EAGAIN);
	while (how < 0 && sidecar_rest(s, LOCK_SH, &r));
	sidecar_end_rest(s, &r);
	return how < 0 ? enter_without(s) : how;
}

int sidecar_try_enter_store(struct sidecar *s)
{
	return s->there ? try_beside_readers(s, -EAGAIN) : SIDECAR_NONE;
}

int sidecar_enter_store(struct sidecar *s)
{
	struct rest r = {0};
	int how;

	do
		how = sidecar_try_enter_store(s);
	while (how < 0 && sidecar_rest_briefly(s, LOCK_SH, &r));
	return how;
}

int sidecar_enter_soon(struct sidecar *s)
{
	int how = sidecar_enter_store(s);

	return how < 0 && sidecar_is_over(s) ? enter_without(s) : how;
}

void sidecar_leave(struct sidecar *s, int how)
{
	if (!has_entered(how))
		return;
	pthread_mutex_lock(&s->lock);
	if (how == SIDECAR_ALONE || --s->readers == 0)
		(void)flock(s->fd, LOCK_UN);
	pthread_mutex_unlock(&s->lock);
	pthread_rwlock_unlock(&s->entered);
}

bool sidecar_changed(struct sidecar *s, int how)
{
	if (!has_entered(how))
		return false;
	pthread_mutex_lock(&s->lock);
	bool changed = counter(s->fd) != s->generation || (how != SIDECAR_WITHOUT && s->unsure);
	pthread_mutex_unlock(&s->lock);
	return changed;
}

void sidecar_seen(struct sidecar *s, int how)
{
	if (!has_entered(how))
		return;
	pthread_mutex_lock(&s->lock);
	s->generation = counter(s->fd);
	s->unsure = how == SIDECAR_WITHOUT;
	pthread_mutex_unlock(&s->lock);
}

int sidecar_try_enter_alone(struct sidecar *s)
{
	int how = SIDECAR_NONE;

	pthread_rwlock_wrlock(&s->entered);
	if (s->fd >= 0) {
		pthread_mutex_lock(&s->lock);
		how = sidecar_try_lock(s, LOCK_EX) ? SIDECAR_ALONE : -EAGAIN;
		pthread_mutex_unlock(&s->lock);
	}
	if (!has_entered(how))
		pthread_rwlock_unlock(&s->entered);
	return how;
}

/* Increments the generation. The lock is held exclusively. */
static int count_up(struct sidecar *s)
{
	uint64_t now = counter(s->fd), next = now + 1;

	/* Readers would miss the change: if we may not tell them, we do not write. */
	errno = EIO;
	if (pwrite(s->fd, &next, sizeof next, COUNTER_AT) != (ssize_t)sizeof next)
		return errno == EBADF ? -EACCES : -errno; /* sidecar_is_read_only */
	if (now == s->generation && !s->unsure)
		s->generation = next;
	else
		s->unsure = true; /* what others have written before is yet to be seen */
	return 0;
}

int sidecar_enter_alone(struct sidecar *s)
{
	struct rest r = {0};
	int how;

	if (!s->there)
		return SIDECAR_NONE;
	do
		how = sidecar_try_enter_alone(s);
	while (how < 0 && sidecar_rest_briefly(s, LOCK_EX, &r));
	int rc = has_entered(how) ? count_up(s) : 0;
	if (rc < 0)
		sidecar_leave(s, how);
	return rc < 0 ? rc : how;
}
