#include "fs/background/recompress.h"

#include "base/log.h"
#include "base/waker.h"
#include "fs/background/known.h"
#include "fs/background/recompress_file.h"
#include "fs/backing/entry.h"
#include "fs/file/open.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"
#include "fs/stats.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* A file is cold when it has not changed for this many times -o recompress (seconds). */
#define COLD 60

/* How deep directories are visited; each level takes two descriptors. */
#define DEPTH_MOST 64

/*
 * The pause after looking at all files, in multiples of the time that took: at most a tenth of the
 * time is spent looking.
 */
#define REST 10

/* Bytes that stay free on the disk: old and new chunks of a file exist side by side for a while. */
#define FREE_LEAST (64ull << 20)

/* In units of 512 bytes (stat(2)). A file of a single disk block cannot get smaller. */
#define BLOCKS_LEAST 8

struct recompress {
	struct fs *fs;
	struct recompress_totals *all; /* of recompress_all; NULL: there is a thread */
	bool (*is_asked_to_end)(void); /* of recompress_all */
	pthread_t thread;
	struct waker waker;

	/* used by the thread alone */
	struct meter_sums *sums; /* room for stats_requests */
	uint64_t requests;       /* how many there had been when the mount was idle last */
	struct known known;
};

/* True: there was a request, or written data waits to be stored. */
static bool is_used(struct recompress *r)
{
	return stats_requests(r->sums) != r->requests || budget_used(r->fs->budget);
}

static bool must_stop(void *ctx)
{
	struct recompress *r = ctx;
	return r->all ? r->is_asked_to_end() : waker_stopped(&r->waker) || is_used(r);
}

/* False, here and below: the thread shall end. */
static bool wait_idle(struct recompress *r)
{
	if (r->all) {
		r->all->stopped = r->is_asked_to_end();
		return !r->all->stopped;
	}
	while (is_used(r)) {
		r->requests = stats_requests(r->sums);
		if (!waker_sleep_for(&r->waker, r->fs->opt.recompress))
			return false;
	}
	return !waker_stopped(&r->waker);
}

static bool is_marked(int fd, const struct stat *st)
{
	char is[RECOMPRESS_MARK_MAX], want[RECOMPRESS_MARK_MAX];

	recompress_mark(st, want);
	ssize_t n = fd_getxattr(fd, RECOMPRESS_MARK, span_of(is, sizeof is));
	return n == (ssize_t)strlen(want) && memcmp(is, want, (size_t)n) == 0;
}

static bool is_cold(const struct recompress *r, const struct stat *st)
{
	double age = (double)(time(NULL) - st->st_mtim.tv_sec);

	/*
	 * An mtime in the future was set, or is from another clock: it says nothing, and may stay
	 * so.
	 */
	return r->all || age < 0 || age >= COLD * r->fs->opt.recompress;
}

static bool has_room(const struct fs *fs)
{
	struct statvfs st;
	return fstatvfs(fs->backing.root, &st) == 0 &&
	       (uint64_t)st.f_bavail * st.f_frsize >= FREE_LEAST;
}

/* True: the file has set-id bits or capabilities, which any write to the backing file removes. */
static bool has_privileges(int fd, const struct stat *st)
{
	return st->st_mode & (S_ISUID | S_ISGID) || fgetxattr(fd, CAPS_XATTR, NULL, 0) > 0;
}

/* True: we may restore the mtime after writing, which only the owner and root can. */
static bool may_set_mtime(const struct fs *fs, const struct stat *st)
{
	return fs->backing.is_root || st->st_uid == geteuid();
}

/*
 * 0: the file may be recompressed. -EAGAIN: it is being written, or was since it was found. -EPERM:
 * the user or another program has decided how it is stored, or other programs share it.
 */
static int judge(struct file *f, const struct stat *found)
{
	struct timespec mtime = times_mtime(f->inode, f->fd);

	pthread_mutex_lock(&f->inode->lock);
	bool quiet = f->inode->nwriters == 0;
	pthread_mutex_unlock(&f->inode->lock);
	pthread_rwlock_rdlock(&f->lock);
	bool ours = !f->wish.has_pipeline && frame_is_ours(f->frame);
	pthread_rwlock_unlock(&f->lock);
	if (!quiet || !same_time(mtime, found->st_mtim))
		return -EAGAIN;
	ours &= !f->sidecar.there && may_set_mtime(f->fs, found);
	return ours && !has_privileges(f->fd, found) ? 0 : -EPERM;
}

/* 1: done with the file. 0: interrupted, to be continued at chunk *next. */
static int work_on(struct recompress *r, struct inode *n, const struct stat *found, uint32_t *next)
{
	struct file *f;

	TRY(file_get(r->fs, n, O_RDWR, &f));
	struct recompress_job job = {.file = f,
				     .next = *next,
				     .pool = r->all ? r->fs->pool : NULL,
				     .stop = must_stop,
				     .ctx = r};
	int rc = judge(f, found);
	if (rc == 0)
		rc = recompress_file(&job);
	*next = job.next;
	bool unmarked = rc > 0 && !recompress_leave_mark(f);
	if (recompress_was_overtaken(f))
		rc = -ESTALE;
	else if (unmarked)
		known_note(&r->known, found);
	file_put(r->fs, n);
	return rc;
}

/* True: the next visit may not meet this failure again, so the file need not be remembered. */
static bool is_temporary(int rc)
{
	return rc == -EAGAIN || rc == -ESTALE || err_is_full(rc) || rc == -ENOMEM || rc == -EMFILE;
}

/* Where nobody has asked for it now, only damage is worth a line. */
static void tell_failure(const struct recompress *r, const struct entry *e, int rc)
{
	char text[ERR_TEXT_MAX];
	bool used = rc == -ESTALE || rc == -EAGAIN;
	const char *why = used ? "another program uses it" : err_text(rc, text);

	if (rc == -EBADMSG || rc == -EIO || (r->all && rc != -EPERM))
		log_warn("%s: not recompressed: %s", e->backing, why);
	else
		log_debug("%s: not recompressed: %s", e->backing, why);
}

static void count(struct recompress_totals *t, int dir, const struct entry *e, int rc)
{
	struct stat now;

	if (rc == -EPERM || fstatat(dir, e->backing, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	t->files++;
	t->failed += rc < 0;
	uint64_t before = (uint64_t)e->st.st_blocks * 512, after = (uint64_t)now.st_blocks * 512;
	t->before += before;
	t->after += after;
	if (after < before)
		log_info("%s: %" PRIu64 " -> %" PRIu64, e->backing, before, after);
}

static bool work_on_all(struct recompress *r, int dir, struct inode *n, const struct entry *e)
{
	uint32_t next = 0;
	int rc = 0;

	while (rc == 0) {
		if (!wait_idle(r))
			return false;
		rc = has_room(r->fs) ? work_on(r, n, &e->st, &next) : -ENOSPC;
	}
	if (rc < 0 && !is_temporary(rc))
		known_note(&r->known, &e->st);
	if (rc < 0)
		tell_failure(r, e, rc);
	if (r->all)
		count(r->all, dir, e, rc);
	return true;
}

/* A directory that is being searched; all is borrowed. */
struct folder {
	struct inode *inode;
	int fd, depth;
};

/*
 * The inode of an entry, with the name that was read from the directory. The file may have been
 * renamed since; then that name would never be removed from the inode again.
 */
static struct inode *enter(struct recompress *r, const struct folder *in, struct entry *e)
{
	struct inode *n = inode_from_entry(r->fs->inodes, in->inode, e);

	if (!n || inode_link_check(r->fs->inodes, n, in->inode, in->fd, e->backing))
		return n;
	inode_put(r->fs->inodes, n, 1);
	return NULL;
}

/* Where all files are asked for, none is left out without a word. */
static void tell_unseen(struct recompress *r, const char *name, const char *why)
{
	if (!r->all)
		return;
	log_warn("%s: not looked at: %s", name, why);
	r->all->failed++;
}

static bool look_in(struct recompress *r, const struct folder *in, const char *name);

static bool look_below(struct recompress *r, const struct folder *in, struct entry *e)
{
	struct folder below = {.fd = -1, .depth = in->depth + 1};
	bool go_on = true;

	if (below.depth > DEPTH_MOST) {
		tell_unseen(r, e->backing, "too many directories above it");
		return true;
	}
	below.fd =
		openat(in->fd, e->backing, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below.fd < 0) {
		tell_unseen(r, e->backing, strerror(errno));
		return true;
	}
	below.inode = enter(r, in, e);
	if (below.inode) {
		go_on = look_in(r, &below, e->backing);
		inode_put(r->fs->inodes, below.inode, 1);
	}
	close(below.fd);
	return go_on;
}

static bool look_at_file(struct recompress *r, const struct folder *in, struct entry *e)
{
	bool go_on = true;

	if (e->st.st_blocks <= BLOCKS_LEAST || !is_cold(r, &e->st) ||
	    known_has(&r->known, &e->st) || is_marked(e->fd, &e->st))
		return true;
	struct inode *n = enter(r, in, e);
	if (n) {
		go_on = work_on_all(r, in->fd, n, e);
		inode_put(r->fs->inodes, n, 1);
	}
	return go_on;
}

/* Waits until the mount is idle first: looking at a file is work for the disk, too. */
static bool look_at(struct recompress *r, const struct folder *in, const char *name)
{
	struct fs *fs = r->fs;
	struct finder finder = {
		.backing = &fs->backing, .probes = fs->probes, .inodes = fs->inodes};
	struct entry e = {.fd = -1};
	char text[ERR_TEXT_MAX];

	if (!wait_idle(r))
		return false;
	err_clear();
	int rc = entry_show(&finder, in->fd, name, &e);
	if (rc < 0) {
		if (rc != -ENOENT) /* else it is hidden, or gone meanwhile */
			tell_unseen(r, name, err_text(rc, text));
		return true;
	}
	bool go_on = true;
	if (e.st.st_dev == inodes_root(fs->inodes)->key.dev) {
		if (S_ISDIR(e.st.st_mode) && e.probed.kind == NODE_PLAIN)
			go_on = look_below(r, in, &e);
		else if (S_ISREG(e.st.st_mode) && e.probed.kind == NODE_FRAME)
			go_on = look_at_file(r, in, &e);
	}
	if (e.fd >= 0)
		close(e.fd);
	return go_on;
}

static bool look_in(struct recompress *r, const struct folder *in, const char *name)
{
	struct dirent *d;
	size_t stem;
	bool go_on = true;

	DIR *list = fd_opendir(in->fd, ".");
	if (!list) {
		tell_unseen(r, name, strerror(errno));
		return true;
	}
	while (go_on && (errno = 0, d = readdir(list))) {
		bool is_dir = d->d_type == DT_DIR || d->d_type == DT_UNKNOWN;
		if (names_is_dots(d->d_name))
			continue;
		if (is_dir || suffix_of(d->d_name, &stem) == SUFFIX_FRAME)
			go_on = look_at(r, in, d->d_name);
	}
	if (go_on && errno)
		tell_unseen(r, name, strerror(errno));
	closedir(list);
	return go_on;
}

static void *recompress_main(void *arg)
{
	struct recompress *r = arg;
	struct fs *fs = r->fs;
	struct folder root = {inodes_root(fs->inodes), fs->backing.root, 0};

	(void)setpriority(PRIO_PROCESS, 0, 19); /* of this thread alone */
	while (wait_idle(r)) {
		uint64_t start = meter_now();
		if (!look_in(r, &root, "."))
			break;
		double took = clock_to_seconds(meter_now() - start);
		if (!waker_sleep_for(&r->waker, COLD * fs->opt.recompress + REST * took))
			break;
	}
	return NULL;
}

void recompress_all(struct fs *fs, bool (*stop)(void), struct recompress_totals *t)
{
	struct recompress r = {.fs = fs, .all = t, .is_asked_to_end = stop};
	struct folder root = {inodes_root(fs->inodes), fs->backing.root, 0};

	*t = (struct recompress_totals){0};
	(void)look_in(&r, &root, fs->opt.backing);
	known_clear(&r.known);
}

static void recompress_free(struct recompress *r)
{
	known_clear(&r->known);
	waker_deinit(&r->waker);
	mem_free(r->sums);
	mem_free(r);
}

int recompress_start(struct recompress **out, struct fs *fs)
{
	*out = NULL;
	if (fs->opt.recompress <= 0 || fs->opt.read_only)
		return 0;
	struct recompress *r = mem_zalloc(sizeof *r);
	if (!r)
		return -ENOMEM;
	r->fs = fs;
	r->requests = UINT64_MAX;
	waker_init(&r->waker);
	r->sums = mem_zalloc(sizeof *r->sums);
	int rc = r->sums ? -pthread_create(&r->thread, NULL, recompress_main, r) : -ENOMEM;
	if (rc < 0)
		recompress_free(r);
	else
		*out = r;
	return rc;
}

void recompress_stop(struct recompress *r)
{
	if (!r)
		return;
	waker_stop(&r->waker);
	pthread_join(r->thread, NULL);
	recompress_free(r);
}
