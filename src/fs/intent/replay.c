#include "base/fd.h"
#include "base/log.h"
#include "fs/intent/intent.h"
#include "fs/intent/replay_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/*
 * Wrong bytes may come from the way between the disk and us: a record that is not whole is read
 * once more.
 */
int replay_read(int fd, uint64_t at, struct buf *b, struct intent_record *r)
{
	int rc = read_record(fd, at, b, r);
	return rc == -EBADMSG ? read_record(fd, at, b, r) : rc;
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

#define REST_MOST (256u << 20) /* bytes that are searched; a hole may be of any size */

/*
 * True: a whole record of the generation begins there. Those of other generations are not read:
 * older ones may have left a log full of them, whose data may look like heads of long records.
 */
static bool has_record_at(const struct replay *x, uint64_t at, struct buf *b)
{
	uint8_t head[INTENT_HEAD];
	struct intent_record r;

	return fd_pread(x->fd, at, span_of(head, sizeof head)) >= 0 &&
	       intent_record_generation(view_of(head, sizeof head)) == x->generation &&
	       replay_read(x->fd, at, b, &r) == 0 && r.sequence > x->n;
}

/*
 * Logs how many whole records of the generation are beyond the end of the log at `at`. A power
 * failure may leave some for which no fsync has waited; otherwise the one before them was damaged
 * since.
 */
static void tell_rest(const struct replay *x, uint64_t at)
{
	struct buf b = {0};
	struct stat st;
	unsigned n = 0;

	if (fstat(x->fd, &st) < 0)
		return;
	uint64_t end = min_u64((uint64_t)st.st_size, at + REST_MOST);
	for (at += INTENT_ALIGN; at < end; at += INTENT_ALIGN)
		n += has_record_at(x, at, &b);
	buf_free(&b);
	if (n)
		log_warn("intent log: record %u is damaged, or was not on the disk when the power "
			 "failed; it is not applied, nor are records after it: %u",
			 x->n + 1, n);
}

/* Reads the record at `at` into *b. -EBADMSG: it is not whole, or not the next one. */
static int scan_one(struct replay *x, uint64_t at, struct buf *b)
{
	struct intent_record r;

	TRY(replay_read(x->fd, at, b, &r));
	if (at == 0)
		x->generation = r.generation;
	if (r.generation != x->generation || r.sequence != x->n)
		return -EBADMSG;
	x->foreign |= r.directory != x->directory;
	return note_place(x, &(struct place){at, r.inode, r.birth, r.roots});
}

/* The generation of a log whose first record is damaged; 0: not even the head of that is whole. */
static uint64_t generation_of_damaged(const struct replay *x)
{
	uint8_t head[INTENT_HEAD];
	struct view v = view_of(head, sizeof head);
	bool whole = fd_pread(x->fd, 0, span_of(head, sizeof head)) >= 0 && intent_record_length(v);
	return whole ? intent_record_generation(v) : 0;
}

/* Finds the records. The first that is not whole, or not the next one, ends the log. */
static int scan(struct replay *x)
{
	struct buf b = {0};
	uint64_t at = 0;
	int rc = 0;

	while (x->n < UINT32_MAX / 2 && (rc = scan_one(x, at, &b)) == 0)
		at += b.n;
	buf_free(&b);
	if (rc == -EBADMSG && !x->n)
		x->generation = generation_of_damaged(x);
	if (rc == -EBADMSG && x->generation)
		tell_rest(x, at);
	return rc == -EBADMSG ? 0 : rc;
}

static int by_inode(const void *a, const void *b)
{
	uint64_t x = ((const struct wanted *)a)->inode, y = ((const struct wanted *)b)->inode;
	return (x > y) - (x < y);
}

struct wanted *replay_find_wanted(struct replay *x, uint64_t inode)
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

static void rename_log(struct replay *x)
{
	int root = x->fs->backing.root;
	char name[INTENT_ASIDE_SIZE];

	for (unsigned i = 1; i <= INTENT_ASIDE_MOST; i++) {
		intent_aside_name(i, name);
		if (faccessat(root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (errno != ENOENT || renameat(root, NAMES_INTENT, root, name) < 0)
			log_err(NAMES_INTENT ": cannot be kept as %s: %m", name);
		else
			log_err("%s: keeps the intent log, which could not be applied%s", name,
				x->foreign ? ": it is that of another directory or user" : "");
		return;
	}
}

static void report_read_only(const struct replay *x, int rc)
{
	unsigned n = x->applied + x->failed;

	if (n)
		log_warn("read-only: of %u files, what was synced last is in the intent log, and "
			 "not shown",
			 n);
	else if (x->foreign || rc < 0)
		log_warn("read-only: the intent log %s: what was synced last may be missing",
			 x->foreign ? "is that of another directory or user" : "cannot be read");
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
	char text[ERR_TEXT_MAX];

	if (rc < 0)
		log_err(NAMES_INTENT ": %s", err_text(rc, text));
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
		rename_log(x);
	else if (unlinkat(x->fs->backing.root, NAMES_INTENT, 0) < 0)
		log_warn(NAMES_INTENT ": cannot be removed: %m");
}

/*
 * Anybody who can write to the directory might have put it there, and it is applied with our
 * permissions.
 */
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
 * True: the log of another directory has data of our files that is not in them. Borrows `fd`.
 */
static bool has_ours(struct fs *fs, int fd, uint64_t directory)
{
	struct replay x = {.fs = fs, .fd = fd, .directory = directory, .only_looks = true};
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_ours(&st))
		return false;
	if (scan(&x) >= 0 && x.n && !x.foreign && list_wanted(&x) >= 0)
		replay_look_everywhere(&x);
	free_lists(&x);
	return x.applied > 0;
}

/*
 * Looks for a killed mount of a directory above that has not been mounted again since. As soon as
 * we write to its frames, what it had synced would seem to be contained in them.
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
			": %m: it may have what was synced last, which must not be lost");
		return rc;
	}
	if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	log_warn(NAMES_INTENT ": is not a file: no intent log is kept");
	if (fd >= 0)
		close(fd);
	return -ENOENT;
}

/* Applies the log of this directory. */
static int replay_own(struct fs *fs)
{
	struct replay x = {.fs = fs, .directory = inodes_root(fs->inodes)->key.ino,
			   .only_looks = fs->opt.read_only};
	struct stat st;

	x.fd = open_log(fs, &st);
	if (x.fd < 0)
		return x.fd == -ENOENT ? 0 : x.fd;
	x.foreign = !is_ours(&st) || !fs->backing.numbers_last;
	int rc = x.foreign ? 0 : scan(&x);
	if (rc >= 0 && x.n && !x.foreign)
		rc = list_wanted(&x);
	if (rc >= 0)
		replay_look_everywhere(&x);
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
