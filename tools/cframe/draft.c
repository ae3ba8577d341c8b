#include "draft.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "frame/names.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * The drafts that a signal removes. A draft may be finished, and its directory closed, a moment
 * before it is taken off this list: that is harmless, since no other file will ever have its name.
 */
static struct live {
	atomic_bool used;
	int dir;
	char name[sizeof ((struct draft *)NULL)->name];
} live[DRAFTS_MAX];

static atomic_bool ending; /* a signal removes the drafts */

static void remove_live(int signal)
{
	atomic_store(&ending, true);
	for (size_t i = 0; i < DRAFTS_MAX; i++)
		if (atomic_load(&live[i].used))
			(void)unlinkat(live[i].dir, live[i].name, 0);
	(void)raise(signal); /* its default action follows when this returns */
}

/* Another thread may find its draft gone: keeps it from reporting that. */
static void wait_for_end(void)
{
	while (atomic_load(&ending))
		(void)pause();
}

void draft_end_with_signals(void)
{
	static const int signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGTERM,
				      SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM};
	const struct sigaction act = {.sa_handler = remove_live, .sa_flags = (int)SA_RESETHAND};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		struct sigaction before;
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &act, NULL);
	}
}

static struct live *live_get(void)
{
	static size_t next; /* of the main thread */
	for (size_t i = 0; i < DRAFTS_MAX; i++) {
		struct live *l = &live[next++ % DRAFTS_MAX];
		if (!atomic_load(&l->used))
			return l;
	}
	return NULL;
}

/*
 * A mount hides links with the names of drafts, and refuses to create links and nodes with such
 * names (EXDEV): there these get a name with a mark at its end, and are visible while they are
 * drafts, as files are.
 */
#define MARK "+"
static const char *const ends[] = {"", MARK};
#define NENDS (sizeof ends / sizeof *ends)

static bool is_draft(const char *name)
{
	char stem[NAME_MAX + 1];
	size_t n = strlen(name), mark = sizeof MARK - 1;
	return names_is_draft(name) ||
	       (n > mark && strcmp(name + n - mark, MARK) == 0 &&
		names_join(stem, name, n - mark, "") && names_is_draft(stem));
}

static int draft_name(struct draft *d, int dir, const char *end)
{
	uint64_t random;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return -errno;
	*d = (struct draft){.dir = dir, .fd = -1, .live = live_get()};
	if (!d->live)
		return -ENFILE;
	snprintf(d->name, sizeof d->name, NAMES_DRAFT "%016" PRIx64 "%s", random, end);
	d->live->dir = dir;
	memcpy(d->live->name, d->name, sizeof d->name);
	atomic_store(&d->live->used, true);
	return 0;
}

/* On a network the answer may get lost, and with it that a draft was made. */
static int draft_made(struct draft *d, int rc)
{
	if (rc >= 0)
		return 0;
	rc = -errno;
	if (rc != -EEXIST)
		(void)unlinkat(d->dir, d->name, 0);
	atomic_store(&d->live->used, false);
	return rc;
}

/*
 * Locks a draft, which shows that it is in use. False: another run saw it before it was locked, and
 * has removed it. Where there are no locks, no run removes it, since none can lock it.
 */
static bool draft_lock(const struct draft *d)
{
	struct stat st;
	if (flock(d->fd, LOCK_EX | LOCK_NB) < 0)
		return errno != EWOULDBLOCK;
	if (fstat(d->fd, &st) < 0)
		return true;
	if ((st.st_mode & 0600) != 0600) /* because of the directory's default ACL */
		(void)fchmod(d->fd, 0600);
	return st.st_nlink;
}

int draft_open(struct draft *d, int dir)
{
	for (;;) {
		TRY(draft_name(d, dir, ends[0]));
		d->fd = openat(dir, d->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		TRY(draft_made(d, d->fd));
		if (draft_lock(d))
			return 0;
		draft_drop(d);
	}
}

/*
 * Links and nodes have no lock, but are drafts only for a moment: one that has not changed for
 * longer was left by a killed run. A younger one is watched for as long.
 */
#define MOMENT (2 * CLOCK_SECOND)

static void remove_if_old(int dir, const char *name)
{
	struct stat before, st;

	if (fstatat(dir, name, &before, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	uint64_t now = clock_read(CLOCK_REALTIME), then = clock_ns(before.st_ctim);
	if (then > now || now - then < MOMENT)
		clock_sleep(MOMENT);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
	    clock_ns(st.st_ctim) == clock_ns(before.st_ctim))
		(void)unlinkat(dir, name, 0);
}

static void remove_if_left(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1) {
		remove_if_old(dir, name);
		return;
	}
	int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	    flock(fd, LOCK_EX | LOCK_NB) == 0)
		(void)unlinkat(dir, name, 0);
	if (fd >= 0)
		close(fd);
}

void drafts_remove_left(int dir)
{
	struct dirent *d;
	DIR *dp = fd_opendir(dir, ".");

	while (dp && (d = readdir(dp)))
		if (is_draft(d->d_name))
			remove_if_left(dir, d->d_name);
	if (dp)
		closedir(dp);
}

/* True: *d has the next name to try, after names that gave -EXDEV. Else *rc is the result. */
static bool draft_next(struct draft *d, int dir, size_t *turn, int *rc)
{
	if (*turn == NENDS || (*turn && *rc != -EXDEV))
		return false;
	*rc = draft_name(d, dir, ends[(*turn)++]);
	return *rc == 0;
}

int draft_symlink(struct draft *d, int dir, const char *text)
{
	size_t turn = 0;
	int rc = 0;
	while (draft_next(d, dir, &turn, &rc))
		rc = draft_made(d, symlinkat(text, dir, d->name));
	return rc;
}

int draft_node(struct draft *d, int dir, const struct stat *st)
{
	mode_t mode = (st->st_mode & S_IFMT) | 0600;
	size_t turn = 0;
	int rc = 0;
	while (draft_next(d, dir, &turn, &rc))
		rc = draft_made(d, mknodat(dir, d->name, mode, st->st_rdev));
	return rc;
}

/*
 * Opens the directory of `path`, which is relative to `from`; *name is the last component. No
 * symlink is followed, and the path may be longer than the kernel accepts.
 */
static int open_above(int from, const char *path, const char **name)
{
	char part[NAME_MAX + 1];
	int at = openat(from, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc = at < 0 ? -errno : 0;

	for (const char *slash; rc == 0 && (slash = strchr(path, '/')); path = slash + 1) {
		if (!names_join(part, path, (size_t)(slash - path), ""))
			rc = -ENAMETOOLONG;
		int above = at;
		if (rc == 0)
			at = openat(above, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (at < 0)
			rc = -errno;
		close(above);
	}
	*name = path;
	return rc < 0 ? rc : at;
}

int draft_link(struct draft *d, int dir, int from, const char *path)
{
	const char *name;
	int above = open_above(from, path, &name);
	if (above < 0)
		return above;
	size_t turn = 0;
	int rc = 0;
	while (draft_next(d, dir, &turn, &rc)) {
		d->linked = true;
		rc = draft_made(d, linkat(above, name, dir, d->name, 0));
	}
	close(above);
	return rc;
}

void draft_drop(struct draft *d)
{
	if (d->fd >= 0)
		close(d->fd);
	(void)unlinkat(d->dir, d->name, 0);
	atomic_store(&d->live->used, false);
}

#define SAME_OWNER ((uid_t)-1)

/*
 * A user who cannot give files away keeps them, without their set-id bits. Their group may be one
 * of the user's all the same, such as that of a project, whose rights are not meant for another
 * group.
 */
static mode_t mode_for(const struct stat *st, bool given)
{
	return st->st_mode & (given ? 07777 : 01777);
}

int give_attributes(int fd, const struct stat *st, struct extras *x)
{
	const struct timespec times[] = {st->st_atim, st->st_mtim};
	bool given = fchown(fd, st->st_uid, st->st_gid) == 0;
	if (!given)
		(void)fchown(fd, SAME_OWNER, st->st_gid);
	extras_give(x, fd); /* chown removes capabilities; the new mode may deny us writing */
	if (fchmod(fd, mode_for(st, given)) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* fchmodat(2) would follow a symlink that somebody has put in place of the draft. */
static int give_mode_at(const struct draft *d, mode_t mode)
{
	char path[FD_PATH_MAX];
	struct stat st;
	int fd = openat(d->dir, d->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	fd_proc_path(fd, path);
	int rc = fstat(fd, &st) < 0 ? -errno : S_ISLNK(st.st_mode) ? -ELOOP : 0;
	if (rc == 0) /* inherited from the directory's default ACL */
		(void)removexattr(path, "system.posix_acl_access");
	if (rc == 0 && chmod(path, mode) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* The same for files that cannot be opened. */
static int give_attributes_at(const struct draft *d, const struct stat *st)
{
	const struct timespec times[] = {st->st_atim, st->st_mtim};
	const int how = AT_SYMLINK_NOFOLLOW;
	bool given = fchownat(d->dir, d->name, st->st_uid, st->st_gid, how) == 0;
	if (!given)
		(void)fchownat(d->dir, d->name, SAME_OWNER, st->st_gid, how);
	if (!S_ISLNK(st->st_mode))
		TRY(give_mode_at(d, mode_for(st, given)));
	return utimensat(d->dir, d->name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int give_name(const struct draft *d, bool replace, const char *name)
{
	if (replace) {
		if (renameat(d->dir, d->name, d->dir, name) < 0)
			return -errno;
		/* If both are names of one file, rename(2) leaves both. */
		(void)unlinkat(d->dir, d->name, 0);
		return 0;
	}
	if (renameat2(d->dir, d->name, d->dir, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* Where renames support no flags (NFS). */
	if (linkat(d->dir, d->name, d->dir, name, 0) < 0)
		return -errno;
	(void)unlinkat(d->dir, d->name, 0);
	return 0;
}

int draft_finish(struct draft *d, const struct stat *st, struct extras *x, const char *name,
		 bool replace)
{
	int rc = 0, locked = -1;
	if (d->fd >= 0) {
		rc = give_attributes(d->fd, st, x);
		locked = fcntl(d->fd, F_DUPFD_CLOEXEC, 0); /* the lock, until it has its name */
		if (close(d->fd) < 0 && rc == 0)
			rc = -errno;
		d->fd = -1;
	} else if (!d->linked) { /* a link has them: chown(2) would remove capabilities */
		rc = give_attributes_at(d, st);
	}
	if (rc == 0)
		rc = give_name(d, replace, name);
	if (locked >= 0)
		close(locked);
	if (rc < 0) {
		wait_for_end();
		draft_drop(d);
	} else {
		atomic_store(&d->live->used, false);
	}
	return rc;
}
