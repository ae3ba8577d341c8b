#include "fs/intent/replay.h"

#include "base/fd.h"
#include "base/log.h"
#include "fs/file/alone.h"
#include "fs/file/discard.h"
#include "fs/file/open.h"
#include "fs/file/sync.h"
#include "fs/file/write.h"
#include "fs/inode/times.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEEPEST 400 /* directories in each other; one descriptor each */

/* A frame that the log speaks of. */
struct wanted {
	uint64_t inode;
	bool found;
};

/* Where a record is in the log, and which file it belongs to. */
struct place {
	uint64_t at;
	uint64_t inode, birth;
	struct frame_roots roots;
};

struct replay {
	struct fs *fs;
	int fd;
	struct place *place; /* of each record, in order                                      */
	uint32_t n, cap;
	struct wanted *wanted;
	uint32_t nwanted, nfound;
	bool foreign;        /* the log was written for another directory, or by another user */
	bool blind;          /* not every directory could be looked at                        */
	bool only_looks;     /* nothing is applied                                            */
	unsigned applied, failed;
};

/* The record at `at`; -EBADMSG where none is. */
static int read_record(int fd, uint64_t at, struct buf *b, struct intent_record *r)
{
	uint8_t head[INTENT_HEAD];

	TRY(fd_pread(fd, at, span_of(head, sizeof head)));
	uint64_t len = intent_record_length(view_of(head, sizeof head));
	if (!len)
		return -EBADMSG;
	TRY(buf_reserve_fresh(b, len));
	b->n = len;
	TRY(fd_pread(fd, at, buf_span(b)));
	return intent_record_parse(r, buf_view(b));
}

static int note_place(struct replay *x, const struct place *p)
{
	if (x->n == x->cap) {
		uint32_t cap = x->cap ? x->cap * 2 : 64;
		struct place *list = mem_realloc(x->place, cap * sizeof *list);
		if (!list)
			return -ENOMEM;
		x->place = list;
		x->cap = cap;
	}
	x->place[x->n++] = *p;
	return 0;
}

/* Finds the records. The first that is not whole, or not the next one, ends the log. */
static int scan(struct replay *x, uint64_t directory)
{
	struct intent_record r;
	struct buf b = {0};
	uint64_t at = 0, generation = 0;
	int rc = 0;

	while (rc == 0 && x->n < UINT32_MAX / 2) {
		rc = read_record(x->fd, at, &b, &r);
		if (rc == 0 && at == 0)
			generation = r.generation;
		if (rc == 0 && (r.generation != generation || r.sequence != x->n))
			rc = -EBADMSG;
		struct place p = {at, r.inode, r.birth, r.roots};
		if (rc == 0 && r.directory != directory)
			x->foreign = true;
		if (rc == 0)
			rc = note_place(x, &p);
		at += b.n;
	}
	buf_free(&b);
	return rc == -EBADMSG ? 0 : rc;
}

static int by_inode(const void *a, const void *b)
{
	uint64_t x = ((const struct wanted *)a)->inode, y = ((const struct wanted *)b)->inode;
	return (x > y) - (x < y);
}

static struct wanted *find_wanted(struct replay *x, uint64_t inode)
{
	struct wanted key = {.inode = inode};
	return x->nwanted ? bsearch(&key, x->wanted, x->nwanted, sizeof key, by_inode) : NULL;
}

static int list_wanted(struct replay *x)
{
	x->wanted = mem_zalloc_array(x->n, sizeof *x->wanted);
	if (!x->wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < x->n; i++)
		x->wanted[i].inode = x->place[i].inode;
	qsort(x->wanted, x->n, sizeof *x->wanted, by_inode);
	for (uint32_t i = 0; i < x->n; i++)
		if (i == 0 || x->wanted[i].inode != x->wanted[i - 1].inode)
			x->wanted[x->nwanted++] = x->wanted[i];
	return 0;
}

static int apply_record(struct file *f, const struct intent_record *r)
{
	struct view bytes = r->bytes;

	for (uint32_t i = 0; i < r->nranges; i++) {
		struct touched_range t = intent_record_range(r, i);
		struct file_data d = {.at = t.at, .bytes = view_part(bytes, 0, t.len)};
		ssize_t done = file_write(f, &d, FILE_CLOCK_NOW);
		TRY(done);
		if ((uint64_t)done != t.len)
			return -EIO;
		bytes = view_part(bytes, t.len, bytes.n - t.len);
	}
	TRY(file_extend(f, r->size));
	IGNORE(times_set(f->inode, &r->mtime, NULL));
	return 0;
}

/* False: the record belongs to a file that is gone, and this one has got its inode number. */
static bool is_same(const struct place *p, uint64_t inode, uint64_t birth)
{
	return p->inode == inode && (p->birth == birth || !p->birth || !birth);
}

/* Applies all records of the frame, in memory. Returns how many of them it did not contain. */
static int apply_all(struct replay *x, struct file *f, uint64_t inode)
{
	struct frame_roots roots = frame_roots(f->frame);
	uint64_t birth = backing_birth(f->fd);
	struct intent_record r;
	struct buf b = {0};
	int rc = 0, n = 0;

	for (uint32_t i = 0; rc >= 0 && i < x->n; i++) {
		const struct place *p = &x->place[i];
		if (!is_same(p, inode, birth))
			continue;
		rc = intent_record_judge(&p->roots, &roots);
		if (rc <= 0)
			continue;
		n++;
		if (x->only_looks)
			continue;
		rc = read_record(x->fd, p->at, &b, &r);
		if (rc >= 0)
			rc = apply_record(f, &r);
	}
	buf_free(&b);
	return rc < 0 ? rc : n;
}

static int apply_open(struct replay *x, struct file *f, uint64_t inode)
{
	f->replaying = true;
	int n = apply_all(x, f, inode);
	int rc = n > 0 && !x->only_looks ? file_sync(f, COMMIT_SYNC) : n;
	if (rc < 0)
		file_discard(f);
	f->replaying = false;
	return rc < 0 ? rc : n;
}

/* Opens the frame by its name in a directory, and applies its records. Takes e->fd. */
static int apply_entry(struct replay *x, struct inode *dir, struct entry *e)
{
	struct fs *fs = x->fs;
	struct file *f;

	e->probed = (struct probed){.kind = NODE_FRAME};
	struct inode *n = inode_from_entry(fs->inodes, dir, e);
	if (!n)
		return -ENOMEM;
	int rc = file_get(fs, n, !x->only_looks, &f);
	if (rc >= 0) {
		rc = apply_open(x, f, n->key.ino);
		file_put(fs, n);
	}
	inode_put(fs->inodes, n, 1);
	return rc;
}

/* A directory that is being looked through. */
struct folder {
	struct inode *inode;
	int fd, depth;
};

static void try_entry(struct replay *x, const struct folder *in, const char *name)
{
	struct entry e = {.fd = -1};
	char text[200];
	size_t stem;

	if (suffix_of(name, &stem) != SUFFIX_FRAME || strlen(name) > NAME_MAX)
		return;
	strcpy(e.backing, name);
	strcpy(e.shown, name);
	e.fd = backing_find(&x->fs->backing, in->fd, name, &e.st, &e.birth);
	if (e.fd < 0) {
		x->blind |= e.fd != -ENOENT;
		return;
	}
	struct wanted *w = find_wanted(x, e.st.st_ino);
	if (!S_ISREG(e.st.st_mode) || !w || w->found ||
	    e.st.st_dev != inodes_root(x->fs->inodes)->key.dev) {
		close(e.fd);
		return;
	}
	w->found = true;
	x->nfound++;
	err_clear();
	int rc = apply_entry(x, in->inode, &e);
	if (rc < 0)
		log_err("%s: what was synced last is not in it: %s", name,
			err_text(rc, text, sizeof text));
	x->failed += rc < 0;
	x->applied += rc > 0;
}

static void look_in(struct replay *x, const struct folder *in, bool by_stat);

static void look_below(struct replay *x, const struct folder *in, const char *name, bool by_stat)
{
	struct inodes *inodes = x->fs->inodes;
	struct folder below = {.fd = -1, .depth = in->depth + 1};
	struct entry e = {.fd = -1, .probed.kind = NODE_PLAIN};

	if (in->depth < DEEPEST)
		below.fd = openat(in->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below.fd < 0) {
		x->blind |= in->depth >= DEEPEST ||
			    (errno != ENOENT && errno != ENOTDIR && errno != ELOOP);
		return;
	}
	strcpy(e.backing, name);
	strcpy(e.shown, name);
	if (fstat(below.fd, &e.st) < 0) {
		x->blind = true;
	} else if (e.st.st_dev == inodes_root(inodes)->key.dev) {
		below.inode = inode_from_entry(inodes, in->inode, &e);
		if (below.inode) {
			look_in(x, &below, by_stat);
			inode_put(inodes, below.inode, 1);
		} else {
			x->blind = true;
		}
	}
	close(below.fd);
}

/*
 * Looks for frames by the inode numbers in the directory entries; or, `by_stat`, by those of stat,
 * since not every file system fills in the former alike.
 */
static void look_in(struct replay *x, const struct folder *in, bool by_stat)
{
	struct dirent *d;

	int fd = fcntl(in->fd, F_DUPFD_CLOEXEC, 3);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		x->blind = true;
		return;
	}
	while (errno = 0, x->nfound < x->nwanted && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN)
			look_below(x, in, d->d_name, by_stat);
		if (d->d_type != DT_DIR && (by_stat || find_wanted(x, d->d_ino)))
			try_entry(x, in, d->d_name);
	}
	x->blind |= errno != 0; /* of readdir */
	closedir(dir);
}

static void look_everywhere(struct replay *x)
{
	for (int by_stat = 0; by_stat < 2 && x->nfound < x->nwanted; by_stat++) {
		struct folder root = {.inode = inodes_root(x->fs->inodes)};
		root.fd = openat(x->fs->backing.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (root.fd < 0) {
			x->blind = true;
			return;
		}
		look_in(x, &root, by_stat);
		close(root.fd);
	}
}

static void put_aside(struct replay *x)
{
	int root = x->fs->backing.root;
	char name[sizeof INTENT_ASIDE + 12];

	for (unsigned i = 1; i < 10000; i++) {
		snprintf(name, sizeof name, INTENT_ASIDE "%u", i);
		if (faccessat(root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (renameat(root, NAMES_INTENT, root, name) < 0)
			log_err(NAMES_INTENT ": cannot be kept as %s: %m", name);
		else
			log_err("%s: keeps the intent log, which could not be applied%s", name,
				x->foreign ? ": it is that of another directory or user" : "");
		return;
	}
}

static void report_read_only(const struct replay *x, int rc)
{
	if (x->applied || x->failed || x->foreign || rc < 0)
		log_warn("read-only: what was synced last is in the intent log, and not shown, "
			 "of %u files",
			 x->applied + x->failed);
}

static void report(struct replay *x)
{
	if (x->blind && x->nfound < x->nwanted) {
		log_err("intent log: a frame was not found, and not every directory could be read");
		x->failed++;
	}
	if (x->nfound < x->nwanted)
		log_info("intent log: %u files that it names are gone", x->nwanted - x->nfound);
	if (x->applied)
		log_info("intent log: %u files got what was synced last", x->applied);
}

/* Logs the outcome, and removes the log, or keeps what could not be applied. */
static void finish(struct replay *x, int rc)
{
	char text[200];

	if (rc < 0)
		log_err(NAMES_INTENT ": %s", err_text(rc, text, sizeof text));
	if (x->fs->opt.read_only) {
		report_read_only(x, rc);
		return;
	}
	report(x);
	/*
	 * Frames that contain everything, and removals, may not be durable: the log is removed
	 * after them.
	 */
	if (x->n && rc >= 0 && syncfs(x->fd) < 0)
		rc = -errno;
	if (rc < 0 || x->failed || x->foreign)
		put_aside(x);
	else if (unlinkat(x->fs->backing.root, NAMES_INTENT, 0) < 0)
		log_warn(NAMES_INTENT ": cannot be removed: %m");
}

/* Whoever can write to the directory might have put it there, and it is applied with our rights. */
static bool is_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static void free_lists(struct replay *x)
{
	mem_free(x->place);
	mem_free(x->wanted);
}

/*
 * True: the log of another directory has data of our files that is not in them. `fd` stays the
 * caller's.
 */
static bool has_ours(struct fs *fs, int fd, uint64_t directory)
{
	struct replay x = {.fs = fs, .fd = fd, .only_looks = true};
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_ours(&st))
		return false;
	if (scan(&x, directory) >= 0 && x.n && !x.foreign && list_wanted(&x) >= 0)
		look_everywhere(&x);
	free_lists(&x);
	return x.applied > 0;
}

/*
 * Looks for a killed mount of a directory above that has not been mounted again. As soon as we
 * write to its frames, what it had synced would seem to be contained in them.
 */
static int look_above(struct fs *fs)
{
	struct stat here, up;
	int rc = stat_fd(fs->backing.root, &here);
	int dir = openat(fs->backing.root, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (rc == 0 && dir >= 0 && stat_fd(dir, &up) == 0 && up.st_dev == here.st_dev &&
	       up.st_ino != here.st_ino) {
		int log = openat(dir, NAMES_INTENT, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (log >= 0 && has_ours(fs, log, up.st_ino))
			rc = -EBUSY;
		if (log >= 0)
			close(log);
		here = up;
		int next = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(dir);
		dir = next;
	}
	if (dir >= 0)
		close(dir);
	if (rc == -EBUSY && fs->opt.read_only)
		log_warn("read-only: what was synced last is in the intent log of a directory "
			 "above, and not shown");
	else if (rc == -EBUSY)
		log_err("a directory above has an intent log with what was synced last here: mount "
			"that one first");
	return fs->opt.read_only ? 0 : rc;
}

/* -ENOENT: there is no log here. Other failures are logged. */
static int open_log(const struct fs *fs, struct stat *st)
{
	int fd = openat(fs->backing.root, NAMES_INTENT,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 && errno != ELOOP) {
		int rc = -errno;
		log_err(NAMES_INTENT
			": %m: it has what was synced last, and without it that would be lost");
		return rc;
	}
	if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	log_warn(NAMES_INTENT ": is not a file: no intent log is kept");
	if (fd >= 0)
		close(fd);
	return -ENOENT;
}

/* The log of this directory. */
static int replay_own(struct fs *fs)
{
	struct replay x = {.fs = fs, .only_looks = fs->opt.read_only};
	struct stat st;

	x.fd = open_log(fs, &st);
	if (x.fd < 0)
		return x.fd == -ENOENT ? 0 : x.fd;
	x.foreign = !is_ours(&st) || !backing_numbers_last(&fs->backing);
	int rc = x.foreign ? 0 : scan(&x, inodes_root(fs->inodes)->key.ino);
	if (rc >= 0 && x.n && !x.foreign)
		rc = list_wanted(&x);
	if (rc >= 0)
		look_everywhere(&x);
	finish(&x, rc);
	close(x.fd);
	free_lists(&x);
	return 0;
}

int replay(struct fs *fs)
{
	TRY(replay_own(fs));
	return look_above(fs);
}
