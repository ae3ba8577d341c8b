#include "fs/inode/times.h"

#include "base/clock.h"
#include "fs/inode/inode.h"

/* Of the kernel's clock, at the lowest rate that it can be built with: 100 Hz. */
#define TICK (CLOCK_SECOND / 100)

/*
 * Where a file system has time stamps finer than a tick (Linux 6.13), the kernel's coarse ones
 * never fall behind these, but CLOCK_REALTIME_COARSE does. And a change whose stamp equals the
 * previous one is not sent to us: the time that we have is its time, too.
 */
static void not_before(struct timespec *now, const struct timespec *last)
{
	uint64_t ahead = clock_ns(*last) - clock_ns(*now);

	if (ahead < TICK)
		*now = *last;
}

void times_touch(struct inode *n)
{
	struct timespec now;

	/* The clock of the kernel's own time stamps, so that ours never run ahead of them. */
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	pthread_mutex_lock(&n->lock);
	not_before(&now, n->times.pending ? &n->times.mtime : &n->seen.st.st_mtim);
	n->times.mtime = n->times.ctime = now;
	n->times.pending = true;
	n->times.given = true; /* even if the frame does not change: zeros written to a hole */
	pthread_mutex_unlock(&n->lock);
}

static void show(struct inode_times *t, struct stat *st)
{
	if (t->pending) {
		st->st_mtim = t->mtime;
		st->st_ctim = t->ctime;
	} else if (t->shadow && same_time(st->st_ctim, t->backing_ctime)) {
		st->st_ctim = t->ctime;
	}
}

void times_hold(struct inode *n, int fd)
{
	struct stat st;

	pthread_mutex_lock(&n->lock);
	if (!n->times.pending && stat_fd(fd, &st) == 0) {
		show(&n->times, &st);
		n->times.mtime = st.st_mtim;
		n->times.ctime = st.st_ctim;
		n->times.pending = true;
		n->times.given = false;
	}
	pthread_mutex_unlock(&n->lock);
}

/*
 * The sync of a commit comes before its mtime is set. An mtime that is slightly off after a power
 * cut is not worth another sync; one that was set explicitly is.
 */
static void judge_mtime(struct inode *n, const struct timespec *mtime)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (mtime->tv_sec < now.tv_sec - 1 || mtime->tv_sec > now.tv_sec)
		n->attr_changes++;
}

/* True: equal within the coarsest resolution, the two seconds of FAT. */
static bool has_mtime(const struct stat *st, const struct timespec *mtime)
{
	return (uint64_t)st->st_mtim.tv_sec - (uint64_t)mtime->tv_sec + 2 <= 4;
}

/* File systems made with libfuse 2 (bindfs, encfs, ...) ignore one time alone, without an error. */
static void set_mtime(const struct inode *n, int fd)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, n->times.mtime};
	struct stat st;

	if (futimens(fd, ts) < 0)
		return; /* another user's file: it keeps the time of the flush */
	if (stat_fd(fd, &st) < 0 || has_mtime(&st, &n->times.mtime))
		return;
	ts[0] = st.st_atim;
	(void)futimens(fd, ts);
}

static void give_mtime(struct inode *n, int fd)
{
	set_mtime(n, fd);
	judge_mtime(n, &n->times.mtime);
}

void times_set_early(struct inode *n, int fd)
{
	pthread_mutex_lock(&n->lock);
	if (n->times.pending)
		set_mtime(n, fd);
	pthread_mutex_unlock(&n->lock);
}

void times_release(struct inode *n, int fd)
{
	struct stat st;

	pthread_mutex_lock(&n->lock);
	if (n->times.pending && n->times.given) {
		bool held = seen_holds(n, fd);
		give_mtime(n, fd);
		/* Otherwise another program's change has yet to be noticed. */
		if (held && stat_fd(fd, &st) == 0)
			seen_ours(n, &st);
	}
	n->times.pending = false;
	pthread_mutex_unlock(&n->lock);
}

/*
 * Sets the pending times, if any are pending. `mtime` NULL: stays; `ctime` NULL: now. Under
 * n->lock.
 */
static void set_pending(struct inode *n, const struct timespec *mtime, const struct timespec *ctime)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (n->times.pending) {
		if (mtime)
			n->times.mtime = *mtime;
		n->times.given |= mtime != NULL;
		n->times.ctime = ctime ? *ctime : now;
	}
	if (!mtime)
		n->attr_changes++;
}

void times_touch_inode(struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	set_pending(n, NULL, NULL);
	pthread_mutex_unlock(&n->lock);
}

void times_set_mtime(struct inode *n, const struct timespec *mtime)
{
	pthread_mutex_lock(&n->lock);
	set_pending(n, mtime, NULL);
	pthread_mutex_unlock(&n->lock);
}

/*
 * Only the owner of a file may set a time, but all who may write to it may say "now". Where mtime
 * and ctime are one time, that is what was said: by touch(1), or by a write or truncation, which
 * has set the time already when the kernel sends it.
 */
static int set_or_touch(int fd, const struct timespec ts[2], const struct timespec *ctime)
{
	static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
	const int how = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
	struct stat st;

	if (utimensat(fd, "", ts, how) == 0)
		return 0;
	if (errno != EPERM || !ctime || !same_time(ts[1], *ctime))
		return -errno;
	if (ts[0].tv_nsec == UTIME_OMIT && stat_fd(fd, &st) == 0 &&
	    clock_ns(st.st_mtim) >= clock_ns(*ctime))
		return 0;
	return utimensat(fd, "", now, how) < 0 ? -errno : 0;
}

/* Under n->lock: a lookup must not see the new mtime before n->seen has it. */
static int set_backing(struct inode *n, int fd, const struct timespec ts[2],
		       const struct timespec *ctime)
{
	struct stat st;

	bool held = seen_holds(n, fd);
	TRY(set_or_touch(fd, ts, ctime));
	if (stat_fd(fd, &st) < 0)
		return 0;
	if (held)
		seen_ours(n, &st);
	judge_mtime(n, &st.st_mtim);
	if (!n->times.pending && ctime) {
		n->times.ctime = *ctime;
		n->times.backing_ctime = st.st_ctim;
		n->times.shadow = true;
	}
	return 0;
}

int times_set(struct inode *n, int fd, const struct timespec ts[2], const struct timespec *ctime)
{
	int rc = 0;

	pthread_mutex_lock(&n->lock);
	set_pending(n, ts[1].tv_nsec == UTIME_OMIT ? NULL : &ts[1], ctime);
	/* The kernel sends its times right before the last close: the commit there sets them. */
	if (!n->times.pending || ts[0].tv_nsec != UTIME_OMIT)
		rc = set_backing(n, fd, ts, ctime);
	pthread_mutex_unlock(&n->lock);
	return rc;
}

void times_show(struct inode *n, struct stat *st)
{
	pthread_mutex_lock(&n->lock);
	show(&n->times, st);
	pthread_mutex_unlock(&n->lock);
}

void times_committed(struct inode *n, int fd)
{
	struct stat st;

	pthread_mutex_lock(&n->lock);
	if (n->times.pending)
		give_mtime(n, fd);
	if (stat_fd(fd, &st) == 0) {
		if (n->times.pending) {
			n->times.backing_ctime = st.st_ctim;
			n->times.shadow = true;
		}
		seen_set(n, &st, false);
	}
	n->times.pending = false;
	pthread_mutex_unlock(&n->lock);
}

struct timespec times_mtime(struct inode *n, int fd)
{
	struct stat st;

	pthread_mutex_lock(&n->lock);
	struct timespec mtime = n->times.mtime;
	if (!n->times.pending && stat_fd(fd, &st) == 0)
		mtime = st.st_mtim;
	pthread_mutex_unlock(&n->lock);
	return mtime;
}
