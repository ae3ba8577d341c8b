#include "fs/background/recompress_search.h"

#include "base/log.h"
#include "fs/background/recompress_file.h"
#include "fs/backing/entry.h"
#include "fs/file/open.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* How deep directories are visited; each level takes two descriptors. */
#define DEPTH_MOST 64

/* Bytes that stay free on the disk: old and new chunks of a file exist side by side for a while. */
#define FREE_LEAST (64ull << 20)

/* In units of 512 bytes (stat(2)). A file of a single disk block cannot get smaller. */
#define BLOCKS_LEAST 8

static bool is_marked(int fd, const struct stat *st)
{
	char is[RECOMPRESS_MARK_MAX], want[RECOMPRESS_MARK_MAX];

	recompress_mark(st, want);
	ssize_t n = fd_getxattr(fd, RECOMPRESS_MARK, span_of(is, sizeof is));
	return n == (ssize_t)strlen(want) && memcmp(is, want, (size_t)n) == 0;
}

static bool is_cold(const struct recompress_search *s, const struct stat *st)
{
	double age = (double)(time(NULL) - st->st_mtim.tv_sec);

	/* An mtime in the future was set, or is from another clock: it says nothing. */
	return age < 0 || age >= s->cold;
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
static int work_on(struct recompress_search *s, struct inode *n, const struct stat *found,
		   uint32_t *next)
{
	struct file *f;

	TRY(file_get(s->fs, n, O_RDWR, &f));
	struct recompress_job job = {.file = f,
				     .next = *next,
				     .pool = s->pool,
				     .stop = s->stop,
				     .ctx = s->ctx};
	int rc = judge(f, found);
	if (rc == 0)
		rc = recompress_file(&job);
	*next = job.next;
	if (rc > 0 && !job.marked)
		known_note(&s->known, found);
	file_put(s->fs, n);
	return rc;
}

/* True: the next visit may not meet this failure again, so the file need not be remembered. */
static bool is_temporary(int rc)
{
	bool full = err_is_full(rc) && rc != -EFBIG;

	return full || rc == -EAGAIN || rc == -ESTALE || rc == -ENOMEM || rc == -EMFILE;
}

static void tell_failure(const struct recompress_search *s, const char *name, int rc)
{
	char text[ERR_TEXT_MAX];
	bool used = rc == -ESTALE || rc == -EAGAIN;
	const char *why = used ? "another program uses it" : err_text(rc, text);

	if (rc == -EBADMSG || rc == -EIO || (s->totals && rc != -EPERM))
		log_warn("%s: not recompressed: %s", name, why);
	else
		log_debug("%s: not recompressed: %s", name, why);
}

/* `name`: its name for the log, here and above. */
static void count(struct recompress_totals *t, int dir, const struct entry *e, const char *name,
		  int rc)
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
		log_info("%s: %" PRIu64 " -> %" PRIu64, name, before, after);
}

/* False, here and below: `wait` has ended the search. */
static bool work_until_done(struct recompress_search *s, int dir, struct inode *n,
			    const struct entry *e)
{
	char name[INODE_LOG_NAME_MAX];
	uint32_t next = 0;
	int rc = 0;

	inode_log_name(s->fs->inodes, n, name);
	while (rc == 0) {
		if (!s->wait(s->ctx))
			return false;
		rc = has_room(s->fs) ? work_on(s, n, &e->st, &next) : -ENOSPC;
	}
	if (rc < 0 && !is_temporary(rc))
		known_note(&s->known, &e->st);
	if (rc < 0)
		tell_failure(s, name, rc);
	if (s->totals)
		count(s->totals, dir, e, name, rc);
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
static struct inode *enter(struct recompress_search *s, const struct folder *in, struct entry *e)
{
	struct inode *n = inode_from_entry(s->fs->inodes, in->inode, e);

	if (!n || inode_link_check(s->fs->inodes, n, in->inode, in->fd, e->backing))
		return n;
	inode_put(s->fs->inodes, n, 1);
	return NULL;
}

/*
 * Where all files are asked for, none is left out without a word. `name`: in that directory; "":
 * the directory itself.
 */
static void tell_unseen(struct recompress_search *s, const struct folder *in, const char *name,
			const char *why)
{
	char above[INODE_LOG_NAME_MAX] = "";

	if (!s->totals)
		return;
	if (in->depth)
		inode_log_name(s->fs->inodes, in->inode, above);
	else if (!*name)
		name = s->fs->opt.backing;
	log_warn("%s%s%s: not looked at: %s", above, *above && *name ? "/" : "", name, why);
	s->totals->failed++;
}

static bool look_in(struct recompress_search *s, const struct folder *in);

static bool look_below(struct recompress_search *s, const struct folder *in, struct entry *e)
{
	struct folder below = {.fd = -1, .depth = in->depth + 1};
	bool go_on = true;

	if (below.depth > DEPTH_MOST) {
		tell_unseen(s, in, e->backing, "too many directories above it");
		return true;
	}
	below.fd = openat(in->fd, e->backing, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below.fd < 0) {
		tell_unseen(s, in, e->backing, strerror(errno));
		return true;
	}
	below.inode = enter(s, in, e);
	if (below.inode) {
		go_on = look_in(s, &below);
		inode_put(s->fs->inodes, below.inode, 1);
	}
	close(below.fd);
	return go_on;
}

static bool look_at_file(struct recompress_search *s, const struct folder *in, struct entry *e)
{
	bool go_on = true;

	if (e->st.st_blocks <= BLOCKS_LEAST || !is_cold(s, &e->st) ||
	    known_has(&s->known, &e->st) || is_marked(e->fd, &e->st))
		return true;
	struct inode *n = enter(s, in, e);
	if (n) {
		go_on = work_until_done(s, in->fd, n, e);
		inode_put(s->fs->inodes, n, 1);
	}
	return go_on;
}

/* Waits first: looking at a file is work for the disk, too. */
static bool look_at(struct recompress_search *s, const struct folder *in, const char *name)
{
	struct fs *fs = s->fs;
	struct finder finder = fs_finder(fs);
	struct entry e = {.fd = -1};
	char text[ERR_TEXT_MAX];

	if (!s->wait(s->ctx))
		return false;
	err_clear();
	int rc = entry_show(&finder, in->fd, name, &e);
	if (rc < 0) {
		if (rc != -ENOENT) /* else it is hidden, or gone meanwhile */
			tell_unseen(s, in, name, err_text(rc, text));
		return true;
	}
	bool go_on = true;
	if (e.st.st_dev == inodes_root(fs->inodes)->key.dev) {
		if (S_ISDIR(e.st.st_mode) && e.probed.kind == NODE_PLAIN)
			go_on = look_below(s, in, &e);
		else if (S_ISREG(e.st.st_mode) && e.probed.kind == NODE_FRAME)
			go_on = look_at_file(s, in, &e);
	}
	if (e.fd >= 0)
		close(e.fd);
	return go_on;
}

static bool look_in(struct recompress_search *s, const struct folder *in)
{
	struct dirent *d;
	size_t stem;
	bool go_on = true;

	DIR *list = fd_opendir(in->fd, ".");
	if (!list) {
		tell_unseen(s, in, "", strerror(errno));
		return true;
	}
	while (go_on && (errno = 0, d = readdir(list))) {
		bool is_dir = d->d_type == DT_DIR || d->d_type == DT_UNKNOWN;
		if (names_is_dots(d->d_name))
			continue;
		if (is_dir || suffix_of(d->d_name, &stem) == SUFFIX_FRAME)
			go_on = look_at(s, in, d->d_name);
	}
	if (go_on && errno)
		tell_unseen(s, in, "", strerror(errno));
	closedir(list);
	return go_on;
}

bool recompress_search(struct recompress_search *s)
{
	struct fs *fs = s->fs;
	struct folder root = {inodes_root(fs->inodes), fs->backing.root, 0};

	return look_in(s, &root);
}
