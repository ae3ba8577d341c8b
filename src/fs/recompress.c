#include "fs/recompress.h"

#include "base/log.h"
#include "fs/caps.h"
#include "fs/file.h"
#include "fs/names.h"
#include "fs/recompress_file.h"
#include "fs/stats.h"
#include "fs/times.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* As long as nobody asks for anything, times this: younger files may change again. */
#define COLD 60

/* Directories in each other; two descriptors each. */
#define DEEPEST 64

/* Of the time, at most: what looking for files may take where there is nothing left to do. */
#define LOOKING 10

/* On a disk this full, what is in the way for a moment is not. */
#define SPARE (64ull << 20)

/* Files that took no mark: what is known of them is forgotten all at once. */
#define KNOWN_MOST 65536

struct known {
	uint64_t ino;
	struct timespec mtime;
	UT_hash_handle hh;
};

struct recompress {
	struct fs *fs;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop; /* under lock */

	/* of the thread alone */
	struct meter_sums *room;
	uint64_t asked; /* requests when it was idle last */
	struct known *known;
};

static bool stopped(struct recompress *r)
{
	pthread_mutex_lock(&r->lock);
	bool stop = r->stop;
	pthread_mutex_unlock(&r->lock);
	return stop;
}

/* False: it is time to stop. */
static bool pause_for(struct recompress *r, double seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)(seconds * 1e9);
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	pthread_mutex_lock(&r->lock);
	while (!r->stop && pthread_cond_timedwait(&r->wake, &r->lock, &until) == 0)
		;
	bool go_on = !r->stop;
	pthread_mutex_unlock(&r->lock);
	return go_on;
}

/* Somebody asked for something, or what was written waits to be stored. */
static bool is_used(struct recompress *r)
{
	return stats_requests(r->room) != r->asked || budget_used(r->fs->budget);
}

static bool must_stop(void *ctx)
{
	struct recompress *r = ctx;
	return stopped(r) || is_used(r);
}

/* False: it is time to stop. */
static bool wait_idle(struct recompress *r)
{
	while (is_used(r)) {
		r->asked = stats_requests(r->room);
		if (!pause_for(r, r->fs->opt.recompress))
			return false;
	}
	return !stopped(r);
}

static struct known *find_known(struct recompress *r, const struct stat *st)
{
	uint64_t ino = st->st_ino;
	struct known *k;

	HASH_FIND(hh, r->known, &ino, sizeof ino, k);
	return k;
}

static void forget_known(struct recompress *r)
{
	struct known *k, *next;

	HASH_ITER(hh, r->known, k, next) {
		HASH_DEL(r->known, k);
		mem_free(k);
	}
}

static void note_known(struct recompress *r, const struct stat *st)
{
	struct known *k = find_known(r, st);

	if (HASH_COUNT(r->known) >= KNOWN_MOST && !k)
		forget_known(r);
	if (!k && (k = mem_zalloc(sizeof *k))) {
		k->ino = st->st_ino;
		HASH_ADD(hh, r->known, ino, sizeof k->ino, k);
		if (!k->hh.tbl) {
			mem_free(k);
			return;
		}
	}
	if (k)
		k->mtime = st->st_mtim;
}

static bool is_known(struct recompress *r, const struct stat *st)
{
	const struct known *k = find_known(r, st);
	return k && same_time(k->mtime, st->st_mtim);
}

static bool is_marked(int fd, const struct stat *st)
{
	char path[BACKING_PATH_MAX], is[RECOMPRESS_MARK_MAX], want[RECOMPRESS_MARK_MAX];

	backing_proc_path(fd, path);
	recompress_mark(st, want);
	ssize_t n = getxattr(path, RECOMPRESS_MARK, is, sizeof is);
	return n == (ssize_t)strlen(want) && memcmp(is, want, (size_t)n) == 0;
}

static bool is_cold(const struct recompress *r, const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	double age = (double)(now.tv_sec - st->st_mtim.tv_sec);
	return age < 0 || age >= COLD * r->fs->opt.recompress;
}

static bool has_room(const struct fs *fs)
{
	struct statvfs st;
	return fstatvfs(fs->backing.root, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize >= SPARE;
}

/* Any write to the backing file takes these away. */
static bool has_privileges(int fd, const struct stat *st)
{
	return st->st_mode & (S_ISUID | S_ISGID) || fgetxattr(fd, CAPS_XATTR, NULL, 0) > 0;
}

/* A write changes the mtime, which only the owner can set back. */
static bool is_own(const struct fs *fs, const struct stat *st)
{
	return fs->backing.is_root || st->st_uid == geteuid();
}

/*
 * -EAGAIN: somebody writes, or has written since. -EPERM: another program, or the user, said how it
 * is stored, or other programs share it.
 */
static int judge(struct file *f, const struct stat *found)
{
	struct timespec mtime;

	times_mtime(f->inode, f->fd, &mtime);
	pthread_mutex_lock(&f->inode->lock);
	bool quiet = f->inode->nwriters == 0;
	pthread_mutex_unlock(&f->inode->lock);
	pthread_rwlock_rdlock(&f->lock);
	bool ours = !f->wish.has_pipeline && frame_is_ours(f->frame);
	pthread_rwlock_unlock(&f->lock);
	if (!quiet || !same_time(mtime, found->st_mtim))
		return -EAGAIN;
	ours &= !f->sidecar.there && is_own(f->fs, found);
	return ours && !has_privileges(f->fd, found) ? 0 : -EPERM;
}

/* 1: there is no more to do. 0: it was stopped. */
static int work_on(struct recompress *r, struct inode *n, const struct stat *found, uint32_t *next)
{
	struct file *f;

	TRY(file_get(r->fs, n, true, &f));
	struct recompress_job job = {f, *next, must_stop, r};
	int rc = judge(f, found);
	if (rc == 0)
		rc = recompress_file(&job);
	*next = job.next;
	if (rc > 0 && !recompress_leave_mark(f))
		rc = -ENOTSUP; /* remembered for as long as we live */
	file_put(r->fs, n);
	return rc;
}

/* Nothing to be remembered: next time it may do. */
static bool will_pass(int rc)
{
	return rc == -EAGAIN || rc == -ESTALE || rc == -ENOSPC || rc == -EDQUOT || rc == -ENOMEM ||
	       rc == -EMFILE;
}

/* False: it is time to stop. */
static bool work_on_all(struct recompress *r, struct inode *n, const struct entry *e)
{
	uint32_t next = 0;
	char text[160];
	int rc = 0;

	while (rc == 0) {
		if (!wait_idle(r))
			return false;
		rc = has_room(r->fs) ? work_on(r, n, &e->st, &next) : -ENOSPC;
	}
	if (rc < 0 && !will_pass(rc))
		note_known(r, &e->st);
	if (rc == -EBADMSG || rc == -EIO)
		log_warn("%s: not recompressed: %s", e->backing, err_text(rc, text, sizeof text));
	else if (rc < 0)
		log_debug("%s: not recompressed: %s", e->backing, err_text(rc, text, sizeof text));
	return true;
}

/*
 * The inode of an entry, under the name that was read from the directory. It may have got another
 * one since, and nothing would take the old one away again.
 */
static struct inode *enter(struct recompress *r, struct inode *dir, int dirfd, struct entry *e)
{
	struct stat st;

	struct inode *n = inode_from_entry(r->fs->inodes, dir, e);
	if (!n)
		return NULL;
	if (fstatat(dirfd, e->backing, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == n->key.ino &&
	    st.st_dev == n->key.dev)
		return n;
	inode_link_remove(r->fs->inodes, n, dir, e->backing);
	inode_put(r->fs->inodes, n, 1);
	return NULL;
}

static bool look_in(struct recompress *r, struct inode *dir, int dirfd, int depth);

static bool look_below(struct recompress *r, struct inode *dir, int dirfd, struct entry *e,
		       int depth)
{
	int fd = depth < DEEPEST ? openat(dirfd, e->backing,
					  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				 : -1;
	struct inode *n = fd < 0 ? NULL : enter(r, dir, dirfd, e);
	bool go_on = true;

	if (n) {
		go_on = look_in(r, n, fd, depth + 1);
		inode_put(r->fs->inodes, n, 1);
	}
	if (fd >= 0)
		close(fd);
	return go_on;
}

static bool look_at_file(struct recompress *r, struct inode *dir, int dirfd, struct entry *e)
{
	bool go_on = true;

	if (e->st.st_blocks * 512 <= 4096 || !is_cold(r, &e->st) || is_known(r, &e->st) ||
	    is_marked(e->fd, &e->st))
		return true;
	struct inode *n = enter(r, dir, dirfd, e);
	if (n) {
		go_on = work_on_all(r, n, e);
		inode_put(r->fs->inodes, n, 1);
	}
	return go_on;
}

/* False: it is time to stop. Looking alone is work, too. */
static bool look_at(struct recompress *r, struct inode *dir, int dirfd, const char *name, int depth)
{
	struct fs *fs = r->fs;
	struct names names = {&fs->backing, fs->probes, fs->inodes};
	struct entry e = {.fd = -1};
	bool go_on = wait_idle(r);

	err_clear();
	if (!go_on || names_show(&names, dirfd, name, &e) < 0)
		return go_on;
	if (e.st.st_dev == inodes_root(fs->inodes)->key.dev) {
		if (S_ISDIR(e.st.st_mode) && e.probed.kind == NODE_PLAIN)
			go_on = look_below(r, dir, dirfd, &e, depth);
		else if (S_ISREG(e.st.st_mode) && e.probed.kind == NODE_FRAME)
			go_on = look_at_file(r, dir, dirfd, &e);
	}
	if (e.fd >= 0)
		close(e.fd);
	return go_on;
}

static bool look_in(struct recompress *r, struct inode *dir, int dirfd, int depth)
{
	struct dirent *d;
	size_t stem;
	bool go_on = true;

	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (!list) {
		if (fd >= 0)
			close(fd);
		return true;
	}
	while (go_on && (d = readdir(list))) {
		bool is_dir = d->d_type == DT_DIR || d->d_type == DT_UNKNOWN;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (is_dir || suffix_of(d->d_name, &stem) == SUFFIX_FRAME)
			go_on = look_at(r, dir, dirfd, d->d_name, depth);
	}
	closedir(list);
	return go_on;
}

static void *recompress_main(void *arg)
{
	struct recompress *r = arg;
	struct fs *fs = r->fs;

	(void)setpriority(PRIO_PROCESS, 0, 19); /* of this thread alone */
	while (wait_idle(r)) {
		uint64_t start = meter_now();
		if (!look_in(r, inodes_root(fs->inodes), fs->backing.root, 0))
			break;
		double took = (double)(meter_now() - start) / 1e9;
		if (!pause_for(r, COLD * fs->opt.recompress + LOOKING * took))
			break;
	}
	return NULL;
}

static void recompress_free(struct recompress *r)
{
	forget_known(r);
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
	mem_free(r->room);
	mem_free(r);
}

int recompress_start(struct recompress **out, struct fs *fs)
{
	pthread_condattr_t attr;

	*out = NULL;
	if (!fs->opt.recompress || fs->opt.read_only)
		return 0;
	struct recompress *r = mem_zalloc(sizeof *r);
	if (!r)
		return -ENOMEM;
	r->fs = fs;
	r->asked = UINT64_MAX;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->wake, &attr);
	pthread_condattr_destroy(&attr);
	r->room = mem_zalloc(sizeof *r->room);
	int rc = r->room ? -pthread_create(&r->thread, NULL, recompress_main, r) : -ENOMEM;
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
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	recompress_free(r);
}
