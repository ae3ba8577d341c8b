#include "fs/backing/claim.h"

#include "base/clock.h"
#include "base/log.h"
#include "fs/backing/machines.h"
#include "fs/backing/mounts.h"
#include "fs/process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * Marks are shared record locks on single bytes of the directory, at these offsets:
 *
 *   device number of its mount    a daemon serves the directory ...
 *   PROCESS + process number      ... and is this process
 *   ENDING + device number        ... and is about to end: this mark is made here only
 *   USED + TO_WRITE or TO_READ + user number
 *                                 a daemon uses it so, or is about to: this mark is made before
 *                                 the first look at anything in the directory
 *
 * On the directories above, BELOW is added to the first two offsets, and USED_BELOW takes the place
 * of USED.
 */
#define ENDING ((off_t)1 << 48)
#define PROCESS ((off_t)1 << 49)
#define BELOW ((off_t)1 << 52)

#define USED ((off_t)1 << 53)
#define USED_BELOW ((off_t)1 << 54)
#define TO_WRITE 0
#define TO_READ ((off_t)1 << 33)
#define USERS ((off_t)1 << 32)

/* `type`: F_RDLCK sets the mark, F_UNLCK clears it. A failure is ignored. */
static void set_mark(int fd, off_t at, short type)
{
	struct flock own = {.l_type = type, .l_start = at, .l_len = 1};
	(void)fcntl(fd, F_OFD_SETLK, &own);
}

/* Sets or clears a mark here, and one on each directory above. */
static void set_marks(const struct backing *b, off_t here, off_t above, short type)
{
	set_mark(b->lock, here, type);
	for (unsigned i = 0; i < b->nabove; i++)
		set_mark(b->above[i], above, type);
}

/* The first mark of another daemon from `at` on. */
static bool find_mark(int fd, off_t at, off_t len, off_t *found)
{
	struct flock any = {.l_type = F_WRLCK, .l_start = at, .l_len = len};

	if (fcntl(fd, F_OFD_GETLK, &any) < 0 || any.l_type != F_RDLCK)
		return false;
	*found = any.l_start;
	return true;
}

static bool has_mark(int fd, off_t at)
{
	off_t found;
	return find_mark(fd, at, 1, &found);
}

/* A mark that speaks of the mount, once there is one. */
static void tell(const struct backing *b, off_t at, short type)
{
	if (b->lock >= 0 && b->own_dev)
		set_marks(b, at, BELOW + at, type);
}

/* The same for ENDING, for which nobody looks above. */
static void tell_ending(const struct backing *b, short type)
{
	if (b->lock >= 0 && b->own_dev)
		set_mark(b->lock, ENDING + (off_t)b->own_dev, type);
}

void claim_tell_mount(const struct backing *b)
{
	tell(b, PROCESS + getpid(), F_RDLCK);
	tell(b, (off_t)b->own_dev, F_RDLCK);
}

void claim_tell_ending(const struct backing *b)
{
	tell_ending(b, F_RDLCK);
	tell(b, (off_t)b->own_dev, F_UNLCK);
}

void claim_tell_unmounted(const struct backing *b)
{
	tell(b, (off_t)b->own_dev, F_UNLCK);
	tell_ending(b, F_UNLCK);
	tell(b, PROCESS + getpid(), F_UNLCK);
}

/* The signals of stopper_signals. */
#define ENDING_SIGNALS (1ull << (SIGTERM - 1) | 1ull << (SIGINT - 1) | 1ull << (SIGHUP - 1))

/* 0: no process is marked. `base`: 0: the daemon of the directory; BELOW: one below. */
static pid_t find_process(int fd, off_t base)
{
	off_t at;
	return find_mark(fd, base + PROCESS, PROCESS, &at) ? (pid_t)(at - base - PROCESS) : 0;
}

/*
 * True: a signal that asks a daemon to end is pending. The daemon takes it off (stopper.c) only
 * once ENDING is marked: so look for the signal first, then for the mark, to miss neither.
 */
static bool is_asked_to_end(int fd, off_t base)
{
	pid_t pid = find_process(fd, base);
	return pid && process_bits(pid, "ShdPnd:") & ENDING_SIGNALS;
}

/* Where a mount is, and its source (mounts.h). */
struct place {
	char at[PATH_MAX], source[PATH_MAX];
};

/* Finds the FUSE file system with that device number. */
static bool find_mount_of(dev_t dev, struct place *p)
{
	struct mounts m;
	struct mount_line line;

	if (!mounts_open(&m))
		return false;
	bool found = mounts_find_fuse(&m, dev, &line);
	if (found) {
		snprintf(p->at, sizeof p->at, "%s", line.at);
		snprintf(p->source, sizeof p->source, "%s", line.source);
	}
	mounts_close(&m);
	return found;
}

bool claim_is_ending(const char *path, dev_t mount)
{
	struct place p;

	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool told = is_asked_to_end(fd, 0) || has_mark(fd, ENDING + (off_t)mount);
	close(fd);
	return told && find_mount_of(mount, &p);
}

bool claim_is_shown(const char *path, dev_t mount)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool shown = has_mark(fd, (off_t)mount);
	close(fd);
	return shown;
}

/*
 * True: `dir` is on a FUSE file system, and `up`, where that is mounted, is not. What such a file
 * system shows is not part of the directory around it; our own mounts hide there.
 */
static bool is_end_of_fuse(int dir, int up)
{
	struct stat here, there;
	struct statfs fs;

	return stat_fd(dir, &here) < 0 || stat_fd(up, &there) < 0 ||
	       (here.st_dev != there.st_dev &&
		(fstatfs(dir, &fs) < 0 || fs.f_type == BACKING_FUSE));
}

static bool is_same_directory(int a, int b)
{
	struct stat x, y;

	return stat_fd(a, &x) < 0 || stat_fd(b, &y) < 0 ||
	       (x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* Opens the directories above that may be read; the others get no mark of ours. */
static void open_above(struct backing *b)
{
	int dir = b->root;

	for (unsigned i = 0; i < BACKING_ABOVE; i++) {
		int up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		bool top = up < 0 || is_same_directory(dir, up) || is_end_of_fuse(dir, up);
		if (dir != b->root)
			close(dir);
		dir = up;
		int fd = top ? -1 : openat(up, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			b->above[b->nabove++] = fd;
		if (top)
			break;
	}
	if (dir >= 0 && dir != b->root)
		close(dir);
}

/*
 * A daemon that is in the way: the descriptor on which it was found, and its `base`; or one on
 * another machine (fd is -1), and the name of that.
 */
struct obstacle {
	int fd;
	off_t base;
	const char *has;
	char machine[HOST_NAME_MAX + 1];
};

/* Says, or no longer, that this daemon uses the directory. */
static void mark_use(const struct backing *b, bool shared, short type)
{
	off_t who = (shared ? TO_READ : TO_WRITE) + geteuid();

	set_marks(b, USED + who, USED_BELOW + who, type);
}

/* A writer shares with nobody, a reader with readers. */
static bool is_used_by(int fd, off_t used, uid_t user, bool shared)
{
	return has_mark(fd, used + TO_WRITE + user) ||
	       (!shared && has_mark(fd, used + TO_READ + user));
}

/* `by_others`: other users except root count as well, if they write. */
static bool is_used(int fd, off_t used, bool shared, bool by_others)
{
	off_t found;
	return is_used_by(fd, used, 0, shared) || is_used_by(fd, used, geteuid(), shared) ||
	       (by_others && find_mark(fd, used + TO_WRITE, USERS, &found));
}

/*
 * True: users other than its owner may write to the directory. If it has an ACL, the group bits are
 * its mask.
 */
static bool is_open_to_others(int dir)
{
	struct stat st;
	return stat_fd(dir, &st) < 0 || st.st_mode & (S_IWGRP | S_IWOTH);
}

/*
 * A daemon of a directory above ours may belong to a user who cannot write to ours: then it is not
 * in the way.
 */
static bool find_obstacle(const struct backing *b, bool shared, struct obstacle *o)
{
	bool open = is_open_to_others(b->lock);

	*o = (struct obstacle){b->lock, BELOW, "a directory below it", ""};
	if (is_used(b->lock, USED_BELOW, shared, true))
		return true;
	for (unsigned i = 0; i < b->nabove; i++) {
		*o = (struct obstacle){b->above[i], 0, "a directory above it", ""};
		if (is_used(b->above[i], USED, shared, open))
			return true;
	}
	return false;
}

/* 1: the directory is ours; 0: not yet. */
static int try_once(struct backing *b, bool shared, struct obstacle *o)
{
	*o = (struct obstacle){b->lock, 0, "it", ""};
	bool locked = flock(b->lock, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
	if (!locked && (errno == EWOULDBLOCK || errno == EINTR))
		return 0; /* else the file system does not support flock */
	/* marked first: of two that start at once, one sees the other, or both do and try again */
	mark_use(b, shared, F_RDLCK);
	if (!locked || !find_obstacle(b, shared, o)) {
		*o = (struct obstacle){-1, 0, "it", ""};
		if (machines_lock(b->root, shared, &b->machines, o->machine) >= 0)
			return 1;
	}
	mark_use(b, shared, F_UNLCK);
	return 0;
}

/* True: the mount says that it shows the directory of that obstacle, or one below it. */
static bool is_of(const struct place *p, const struct obstacle *o)
{
	char link[FD_PATH_MAX], path[PATH_MAX];

	fd_proc_path(o->fd, link);
	ssize_t n = readlink(link, path, sizeof path);
	if (n <= 0 || strncmp(p->source, path, (size_t)n) != 0)
		return false;
	return !p->source[n] || (o->base && p->source[n] == '/');
}

/*
 * Will the daemon that is in the way stay there? LEAVES: it has no mount that we see (one in
 * another mount namespace we do not), or is about to end. SEEMS_TO_STAY: a mount has the device
 * number that it has told; but its source is not the directory, so it may be another mount, which
 * got the number before the daemon has noticed that its own is gone. Or the daemon is on another
 * machine, where nothing of this is known.
 */
enum staying { LEAVES, SEEMS_TO_STAY, STAYS };

/* By its mount alone; `at`: where that is. */
static enum staying look_for_mount(const struct obstacle *o, char at[static PATH_MAX])
{
	struct place p;
	off_t dev;

	if (!find_mark(o->fd, o->base, ENDING, &dev) ||
	    !find_mount_of((dev_t)(dev - o->base), &p))
		return LEAVES;
	memcpy(at, p.at, sizeof p.at);
	return is_of(&p, o) ? STAYS : SEEMS_TO_STAY;
}

static enum staying judge(const struct obstacle *o, char at[static PATH_MAX])
{
	if (o->fd < 0) {
		snprintf(at, PATH_MAX, "%s", o->machine[0] ? o->machine : "unknown");
		return SEEMS_TO_STAY;
	}
	if (look_for_mount(o, at) == LEAVES || is_asked_to_end(o->fd, o->base))
		return LEAVES;
	/* again: if it has taken a signal off since the first look, its mark went before that */
	return look_for_mount(o, at);
}

/* Writes " (process 123)"; "": not known, or of another namespace, where numbers mean others. */
static void name_process(const struct obstacle *o, char out[static HOLDER_PROCESS_MAX])
{
	pid_t pid = o->fd < 0 ? 0 : find_process(o->fd, o->base);
	bool seen = pid && process_is_named(pid, "cframefs");

	snprintf(out, HOLDER_PROCESS_MAX, seen ? " (process %d)" : "", (int)pid);
}

#define TRIES 300
#define PAUSE_NS (CLOCK_SECOND / 10)
#define SAYS 10   /* tries after which the wait is logged */
#define UNSURE 50 /* tries for a daemon to notice that its mount is gone */

int claim_take(struct backing *b, bool shared, bool (*stop)(void), struct holder *h)
{
	struct obstacle o;

	*h = (struct holder){.has = "it"};
	b->lock = openat(b->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->lock < 0)
		return -errno;
	open_above(b);
	for (unsigned i = 0; i < TRIES; i++) {
		if (try_once(b, shared, &o))
			return 0;
		h->has = o.has;
		h->elsewhere = o.fd < 0;
		enum staying is = judge(&o, h->at);
		if (is == STAYS || (is == SEEMS_TO_STAY && i >= UNSURE))
			return -EBUSY;
		h->at[0] = 0;
		name_process(&o, h->process);
		if (stop())
			return -EINTR;
		if (i == SAYS)
			log_info("waiting for another cframefs%s to finish with the directory",
				 h->process);
		clock_sleep(PAUSE_NS);
	}
	return -EBUSY;
}
