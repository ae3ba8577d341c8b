#include "fs/file/sidecar.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/meter.h"
#include "fs/backing/backing.h"
#include "fs/file/sidecar_name.h"
#include "fs/inode/inode.h"
#include "fs/relief.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COUNTER_AT 8 /* offset of the generation counter */

/* Waits for the lock end so long after the first try of a row that has failed (sidecar_busy) ... */
#define PATIENCE_NS 30000000000
/* ... provided that the tries have come in close succession for so long, ... */
#define WATCH_NS 2000000000
/* ... which two tries so far apart do not: in between the lock may have been free. */
#define SELDOM_NS 1000000000
/* Each thread waits so long even then, and holding locks of ours never longer. */
#define GRACE_NS 50000000
/* The pause between two tries: short at first, then longer. */
#define NAP_NS 50000
#define NAP_MAX_NS 5000000

/* One thread's wait for the lock. */
struct rest {
	uint64_t grace; /* when it ends; 0: not begun */
	uint64_t end;   /* of the wait; 0: when it is over for all */
	uint64_t nap;   /* the next pause */
	bool relieved;
};

void sidecar_init(struct sidecar *s, struct relief *relief, struct inodes *inodes,
		  atomic_bool *told)
{
	pthread_rwlockattr_t attr;

	*s = (struct sidecar){.relief = relief, .inodes = inodes, .told = told, .fd = -1};
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&s->turn, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&s->lock, NULL);
}

void sidecar_know(struct sidecar *s, const struct sidecar_busy *busy)
{
	s->busy_shared = s->busy_alone = *busy;
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
	pthread_rwlock_destroy(&s->turn);
}

/* The generation counter; 0 if the file is too short. */
static uint64_t counter(int fd)
{
	uint64_t value;
	return pread(fd, &value, sizeof value, COUNTER_AT) == (ssize_t)sizeof value ? value : 0;
}

/* One that cannot be opened counts as none, unless the failure says nothing about the file. */
static int judge_missing(int error)
{
	return backing_is_temporary(-error) ? -error : 0;
}

/* *fd: -1 if there is none, or none that can be locked. */
static int open_sidecar(int dirfd, const char *backing, int *fd)
{
	char name[NAME_MAX + 1];
	struct stat st;

	*fd = -1;
	if (!sidecar_name(backing, name))
		return 0;
	/* Mostly there is none, which this call tells in half of the time. */
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

/* It is open, and was not removed since. */
static bool is_current(struct sidecar *s)
{
	struct stat st;

	pthread_rwlock_rdlock(&s->turn);
	bool current = s->fd >= 0 && fstat(s->fd, &st) == 0 && st.st_nlink > 0;
	pthread_rwlock_unlock(&s->turn);
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
	pthread_rwlock_wrlock(&s->turn);
	bool gone = s->fd < 0 || fstat(s->fd, &st) < 0 || st.st_nlink == 0;
	if (gone) {
		replace_fd(s, fd);
		/* whoever has counted it up may have changed the frame since we looked */
		uint64_t count = fd < 0 ? 0 : counter(fd);
		s->generation = count ? count - 1 : 0;
		s->there = fd >= 0;
	} else if (fd >= 0) {
		close(fd);
	}
	pthread_rwlock_unlock(&s->turn);
	return 0;
}

static struct sidecar_busy *busy(struct sidecar *s, int op)
{
	return op == LOCK_EX ? &s->busy_alone : &s->busy_shared;
}

/* Notes a try that has found the lock held. */
static void find_held(struct sidecar_busy *b, uint64_t now)
{
	uint64_t pause = now - b->seen;

	if (!b->since || pause > PATIENCE_NS)
		b->since = now;
	if (b->since == now || pause > SELDOM_NS)
		b->watched = now;
	b->seen = now;
}

/*
 * Not a blocking flock, which could not be interrupted: whoever holds the lock may itself wait for
 * an answer of ours. Under s->lock.
 */
static bool try_lock(struct sidecar *s, int op)
{
	uint64_t now = meter_now();
	int rc;

	while ((rc = flock(s->fd, op | LOCK_NB)) < 0 && errno == EINTR)
		;
	bool held = rc < 0 && errno == EWOULDBLOCK; /* not every file system has locks */
	if (held) {
		find_held(&s->busy_alone, now);
	} else if (op == LOCK_EX) { /* nobody has it, in either way */
		s->busy_alone.since = 0;
		*s->told = false;
	}
	if (held && op == LOCK_SH)
		find_held(&s->busy_shared, now);
	else if (!held)
		s->busy_shared.since = 0;
	return !held;
}

static struct sidecar_busy look(struct sidecar *s, int op, uint64_t *now)
{
	pthread_mutex_lock(&s->lock);
	struct sidecar_busy b = *busy(s, op);
	*now = meter_now(); /* under the lock, so that it is not before what others have noted */
	pthread_mutex_unlock(&s->lock);
	return b;
}

/* It has been waited for long enough. */
static bool is_over(struct sidecar *s, int op, uint64_t *now)
{
	struct sidecar_busy b = look(s, op, now);
	return b.since && *now - b.since > PATIENCE_NS && *now - b.watched > WATCH_NS;
}

/*
 * To be called after a try, with no lock of ours held. False: it has been waited for long enough.
 * All waits count from when the lock was first found held; otherwise, one after the other, they
 * would take half a minute each.
 */
static bool rest(struct sidecar *s, int op, struct rest *r)
{
	uint64_t now;
	bool over = is_over(s, op, &now);

	if (!r->grace)
		*r = (struct rest){.grace = now + GRACE_NS, .end = r->end, .nap = NAP_NS};
	if (now > r->grace && (over || (r->end && now > r->end)))
		return false;
	if (now > r->grace && !r->relieved)
		r->relieved = relief_begin(s->relief);
	clock_nap(&r->nap, NAP_MAX_NS);
	return true;
}

static void end_rest(struct sidecar *s, struct rest *r)
{
	if (r->relieved)
		relief_end(s->relief);
}

/* As rest, for a caller that holds locks of ours: for a moment at most. */
static bool rest_briefly(struct sidecar *s, int op, struct rest *r)
{
	uint64_t now;
	struct sidecar_busy b = look(s, op, &now);

	if (!r->grace)
		*r = (struct rest){.grace = now + GRACE_NS, .nap = NAP_NS};
	if (now > r->grace || (b.since && now - b.watched > GRACE_NS))
		return false;
	clock_nap(&r->nap, NAP_MAX_NS);
	return true;
}

/* The present name of the lock file. */
static void lock_name(int fd, char out[static NAME_MAX + 1])
{
	char link[FD_PATH_MAX], path[PATH_MAX];

	fd_proc_path(fd, link);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	const char *slash = strrchr(path, '/');
	snprintf(out, NAME_MAX + 1, "%.*s", NAME_MAX, slash ? slash + 1 : "a lock file");
}

bool sidecar_is_read_only(struct sidecar *s)
{
	char name[NAME_MAX + 1];

	if (!s->there)
		return false;
	pthread_rwlock_rdlock(&s->turn);
	bool is = s->fd >= 0 && (fcntl(s->fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
	lock_name(s->fd, name);
	pthread_rwlock_unlock(&s->turn);
	if (is && !atomic_exchange(s->told, true))
		log_warn("%s: may not be written, so its frame can only be read", name);
	return is;
}

/* The process number of one that has the lock; 0: the kernel does not tell. */
static long find_holder(int fd)
{
	FILE *in = fopen("/proc/locks", "re");
	unsigned long long ino;
	unsigned maj, min;
	struct stat st;
	char line[128];
	long pid, found = 0;

	if (fstat(fd, &st) < 0)
		st = (struct stat){0};
	while (in && !found && fgets(line, sizeof line, in))
		if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%llu", &pid, &maj, &min,
			   &ino) == 4 &&
		    ino == st.st_ino && makedev(maj, min) == st.st_dev && pid != getpid())
			found = pid > 0 ? pid : 0;
	if (in)
		fclose(in);
	return found;
}

/* Logs it, once until the lock has been free. The caller has not entered the sidecar. */
static void warn(struct sidecar *s, const char *what)
{
	char name[NAME_MAX + 1], by[32] = "";

	if (atomic_exchange(s->told, true))
		return;
	pthread_rwlock_rdlock(&s->turn);
	long pid = s->fd < 0 ? 0 : find_holder(s->fd);
	lock_name(s->fd, name);
	pthread_rwlock_unlock(&s->turn);
	if (pid)
		snprintf(by, sizeof by, " (process %ld)", pid);
	log_warn("%s: held by another program%s for too long: %s", name, by, what);
}

/*
 * Enters once, beside other readers. Where another program has the lock, that is as `otherwise`
 * says: SIDECAR_WITHOUT, or SIDECAR_NONE, which fails with -EAGAIN.
 */
static int try_beside_readers(struct sidecar *s, enum sidecar_entered otherwise,
			      enum sidecar_entered *how, bool *changed)
{
	int rc = 0;

	*how = SIDECAR_NONE;
	pthread_rwlock_rdlock(&s->turn);
	if (s->fd >= 0) {
		pthread_mutex_lock(&s->lock);
		if (s->readers == 0 || !s->locked)
			s->locked = try_lock(s, LOCK_SH);
		*how = s->locked ? SIDECAR_LOCKED : otherwise;
		rc = *how == SIDECAR_NONE ? -EAGAIN : 0;
		s->readers += *how != SIDECAR_NONE;
		*changed = counter(s->fd) != s->generation || (s->locked && s->unsure);
		pthread_mutex_unlock(&s->lock);
	}
	if (*how == SIDECAR_NONE)
		pthread_rwlock_unlock(&s->turn);
	return rc;
}

/* What follows when the lock is not to be had in time: for the line that warn logs. */
static const char *const outcome[] = {
	[SIDECAR_READ] = "reading without it",
	[SIDECAR_STORE] = "storing has to wait",
	[SIDECAR_COMMIT] = "a commit has to wait",
};

/* Goes on without the lock, unless it is free by now. Cannot fail. */
static void enter_without(struct sidecar *s, enum sidecar_entered *how, bool *changed)
{
	warn(s, outcome[SIDECAR_READ]);
	IGNORE(try_beside_readers(s, SIDECAR_WITHOUT, how, changed));
}

enum sidecar_entered sidecar_enter(struct sidecar *s, bool *changed)
{
	enum sidecar_entered how;
	struct rest r = {0};
	int rc;

	*changed = false;
	if (!s->there)
		return SIDECAR_NONE;
	do
		rc = try_beside_readers(s, SIDECAR_NONE, &how, changed);
	while (rc < 0 && rest(s, LOCK_SH, &r));
	end_rest(s, &r);
	if (rc < 0)
		enter_without(s, &how, changed);
	return how;
}

int sidecar_enter_store(struct sidecar *s, enum sidecar_entered *how, bool *changed)
{
	struct rest r = {0};
	int rc;

	do
		rc = sidecar_try_store(s, how, changed);
	while (rc < 0 && rest_briefly(s, LOCK_SH, &r));
	return rc;
}

int sidecar_enter_soon(struct sidecar *s, enum sidecar_entered *how, bool *changed)
{
	uint64_t now;
	int rc = sidecar_enter_store(s, how, changed);

	if (rc < 0 && is_over(s, LOCK_SH, &now)) {
		enter_without(s, how, changed);
		rc = 0;
	}
	return rc;
}

int sidecar_try_store(struct sidecar *s, enum sidecar_entered *how, bool *changed)
{
	*how = SIDECAR_NONE;
	*changed = false;
	return s->there ? try_beside_readers(s, SIDECAR_NONE, how, changed) : 0;
}

void sidecar_leave(struct sidecar *s, enum sidecar_entered how)
{
	if (how == SIDECAR_NONE)
		return;
	pthread_mutex_lock(&s->lock);
	if (how == SIDECAR_ALONE || --s->readers == 0)
		(void)flock(s->fd, LOCK_UN);
	pthread_mutex_unlock(&s->lock);
	pthread_rwlock_unlock(&s->turn);
}

void sidecar_seen(struct sidecar *s, enum sidecar_entered how)
{
	if (how == SIDECAR_NONE)
		return;
	pthread_mutex_lock(&s->lock);
	s->generation = counter(s->fd);
	s->unsure = how == SIDECAR_WITHOUT;
	pthread_mutex_unlock(&s->lock);
}

/* -EAGAIN: it is held. */
static int try_alone(struct sidecar *s, enum sidecar_entered *how)
{
	int rc = 0;

	*how = SIDECAR_NONE;
	pthread_rwlock_wrlock(&s->turn);
	if (s->fd >= 0) {
		pthread_mutex_lock(&s->lock);
		if (try_lock(s, LOCK_EX))
			*how = SIDECAR_ALONE;
		else
			rc = -EAGAIN;
		pthread_mutex_unlock(&s->lock);
	}
	if (*how == SIDECAR_NONE)
		pthread_rwlock_unlock(&s->turn);
	return rc;
}

/*
 * Takes the lock and gives it back; for a commit in both ways, so that `busy` stays right for both.
 */
static int touch(struct sidecar *s, enum sidecar_for what)
{
	enum sidecar_entered how;
	bool changed;

	TRY(sidecar_try_store(s, &how, &changed));
	sidecar_leave(s, how);
	if (what != SIDECAR_COMMIT)
		return 0;
	TRY(try_alone(s, &how));
	sidecar_leave(s, how);
	return 0;
}

/* Until `end`, unless that is 0. */
static int wait_until(struct sidecar *s, enum sidecar_for what, uint64_t end)
{
	struct rest r = {.end = end};
	int rc;

	do
		rc = touch(s, what);
	while (rc < 0 && rest(s, what == SIDECAR_COMMIT ? LOCK_EX : LOCK_SH, &r));
	end_rest(s, &r);
	return rc;
}

void sidecar_wait_some(struct sidecar *s, enum sidecar_for what, uint64_t ns)
{
	IGNORE(wait_until(s, what, meter_now() + ns));
}

void sidecar_tell_if_long(struct sidecar *s)
{
	uint64_t now;
	struct sidecar_busy b = look(s, LOCK_EX, &now);

	if (b.since && now - b.since > PATIENCE_NS)
		warn(s, outcome[SIDECAR_COMMIT]);
}

bool sidecar_wait(struct sidecar *s, enum sidecar_for what)
{
	int rc = wait_until(s, what, 0);

	if (rc < 0)
		warn(s, outcome[what]);
	return rc >= 0;
}

/* Counts up the generation. The lock is held alone. */
static int count_up(struct sidecar *s, bool *changed)
{
	uint64_t now = counter(s->fd);
	uint64_t next = now + 1;
	*changed = now != s->generation || s->unsure;
	/* Readers would miss the change: without the right to tell them we do not write. */
	errno = EIO;
	if (pwrite(s->fd, &next, sizeof next, COUNTER_AT) != (ssize_t)sizeof next)
		return errno == EBADF ? -EACCES : -errno; /* sidecar_is_read_only */
	if (!*changed) /* else it is for sidecar_seen to say */
		s->generation = next;
	return 0;
}

int sidecar_enter_alone(struct sidecar *s, enum sidecar_entered *how, bool *changed)
{
	struct rest r = {0};
	int rc;

	*how = SIDECAR_NONE;
	*changed = false;
	if (!s->there)
		return 0;
	do
		rc = try_alone(s, how);
	while (rc < 0 && rest_briefly(s, LOCK_EX, &r));
	if (*how == SIDECAR_NONE)
		return rc;
	rc = count_up(s, changed);
	if (rc < 0) {
		sidecar_leave(s, *how);
		*how = SIDECAR_NONE;
	}
	return rc;
}
