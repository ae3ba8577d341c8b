/*
 * Directories are read as the application proceeds, not at once: offsets are those of the backing
 * directory, so that a million entries cost no memory.
 */
#include "fs/ops/ops.h"

#include "base/clock.h"
#include "base/meter.h"
#include "frame/names.h"
#include "fs/backing/ahead.h"

#include <dirent.h>
#include <unistd.h>

struct dir {
	pthread_mutex_t lock; /* of the two below: seekdir and readdir are two steps */
	DIR *dp;
	off_t at;            /* the position of dp */
};

/* Opening "." needs search permission, which listing does not. */
static int open_reader(const struct backing *b, int fd)
{
	int rd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rd < 0 && errno == EACCES)
		return backing_reopen(b, fd, O_RDONLY | O_DIRECTORY);
	return rd < 0 ? -errno : rd;
}

/* After a failure *out, unless NULL, is still to be closed. */
static int open_dir(struct fs *fs, struct inode *n, struct dir **out)
{
	struct dir *d = *out = mem_zalloc(sizeof *d);

	if (!d)
		return -ENOMEM;
	pthread_mutex_init(&d->lock, NULL);
	if (!fs->ending)
		TRY(inodes_room_for_dir(fs->inodes));
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	int rd = open_reader(&fs->backing, fd);
	inode_unpin(fs->inodes, n);
	TRY(rd);
	d->dp = fdopendir(rd);
	if (!d->dp) {
		int rc = -errno;
		close(rd);
		return rc;
	}
	inodes_others_add(fs->inodes, 1);
	return 0;
}

void ops_close_dir(struct fs *fs, struct dir *d)
{
	if (d->dp) {
		closedir(d->dp);
		inodes_others_add(fs->inodes, -1);
	}
	pthread_mutex_destroy(&d->lock);
	mem_free(d);
}

/*
 * The kernel keeps what it lists, for the next listing of the directory, until it sees a change:
 * through the mount, or in the mtime, for which it asks when that has expired. Names come from that
 * cache without attributes, so that each has to be looked up separately once it has expired, too.
 * Hence it may use a kept listing only while most of the names' time is left.
 *
 * After rewinddir(3) on an open directory the kernel shows what it has kept, and compares the mtime
 * only if something else has asked for that. So nothing is kept where names are not.
 *
 * A listing is kept only for a single reader. With several, one may complete a listing that another
 * has begun before changes, and a reader in the middle of a newer one then goes on with it: the
 * kernel judges its age only at the start of a directory.
 */
static void keep_listing(const struct fs *fs, struct handle *h, struct fuse_file_info *fi)
{
	struct inode *n = h->inode;
	uint64_t now = meter_now();

	pthread_mutex_lock(&n->lock);
	bool alone = n->handles == h && !h->next;
	pthread_mutex_unlock(&n->lock);
	fi->cache_readdir = alone && fs->opt.entry_timeout > 0;
	fi->keep_cache = now < atomic_load(&n->listing_lasts);
	if (!fi->keep_cache)
		atomic_store(&n->listing_lasts,
			     now + clock_from_seconds(fs->opt.entry_timeout) / 2);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req);
	struct inode *n = ops_inode(fs, ino);
	struct handle *h = ops_new_handle(fs, n, fi);

	int rc = h ? open_dir(fs, n, &h->dir) : -ENOMEM;
	ops_tell_limit(rc);
	if (rc < 0) {
		if (h)
			ops_close_handle(fs, h);
		fuse_reply_err(req, -rc);
		return;
	}
	keep_listing(fs, h, fi);
	if (fuse_reply_open(req, fi) < 0) /* interrupted: no release will come */
		ops_close_handle(fs, h);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	ops_close_handle(ops_fs(req), ops_handle(fi));
	fuse_reply_err(req, 0);
}

/* One reply under construction. */
struct listing {
	fuse_req_t req;
	struct fs *fs;
	struct inode *inode;
	struct dir *dir;
	bool plus;
	struct buf *out;
	size_t size;
	unsigned listed;
	uint64_t waits; /* of threads, ahead_waits */
};

/* True, here and below: it fits. `e` holds at least inode number and type. */
static bool put_entry(struct listing *l, const char *name, const struct fuse_entry_param *e,
		      off_t next)
{
	char *at = (char *)l->out->p + l->out->n;
	size_t room = l->size - l->out->n;
	size_t len = l->plus ? fuse_add_direntry_plus(l->req, at, room, name, e, next)
			     : fuse_add_direntry(l->req, at, room, name, &e->attr, next);
	if (len > room)
		return false;
	l->out->n += len;
	return true;
}

/* A frame is listed as a regular file, whatever it is made of. */
static mode_t shown_type(const struct entry *e)
{
	return e->probed.kind == NODE_PLAIN ? e->st.st_mode & S_IFMT : S_IFREG;
}

/* Puts an entry without a lookup: the kernel gets no reference to its inode. */
static bool put_name(struct listing *l, const char *name, ino_t number, mode_t type, off_t next)
{
	struct fuse_entry_param p = {.attr.st_ino = number, .attr.st_mode = type};
	return put_entry(l, name, &p, next);
}

/* The same for one that is not looked at: what is known of it comes from its directory. */
static bool put_unseen(struct listing *l, const char *name, mode_t type, const struct dirent *d)
{
	ino_t number = d->d_ino;
	struct stat st;

	if (stat_fd(dirfd(l->dir->dp), &st) == 0) {
		st.st_ino = number;
		number = ops_number(l->fs, &st);
	}
	return put_name(l, name, number, type, d->d_off);
}

/* The same for one that was found. */
static bool put_found(struct listing *l, const struct entry *e, off_t next)
{
	return put_name(l, e->shown, ops_number(l->fs, &e->st), shown_type(e), next);
}

/* Puts it with its attributes, as a lookup would find it. Takes e->fd. */
static bool put_looked_up(struct listing *l, struct entry *e, off_t next)
{
	struct fuse_entry_param p;

	int rc = ops_enter(l->fs, l->inode, e, &p);
	if (rc < 0) /* a lookup will report it; even -ESTALE does not prove that it is gone */
		return put_found(l, e, next);
	if (put_entry(l, e->shown, &p, next))
		return true;
	inode_put(l->fs->inodes, ops_inode(l->fs, p.ino), 1);
	return false;
}

/* True: listed, or nothing to list. False: no room left. */
static bool list_one(struct listing *l, const struct dirent *d)
{
	struct finder finder = fs_finder(l->fs);
	mode_t type = (mode_t)DTTOIF(d->d_type);
	struct entry e;

	if (names_is_dots(d->d_name))
		return put_unseen(l, d->d_name, S_IFDIR, d);
	int rc = entry_show(&finder, dirfd(l->dir->dp), d->d_name, &e);
	if (rc == -ENOENT)
		return true; /* hidden, or gone meanwhile */
	if (rc < 0) /* a lookup will report the error */
		return names_hides(d->d_name, type) ||
		       put_unseen(l, rc == -ENAMETOOLONG ? d->d_name : e.shown, type, d);
	if (l->plus)
		return put_looked_up(l, &e, d->d_off);
	close(e.fd);
	return put_found(l, &e, d->d_off);
}

/*
 * Offsets are opaque 64-bit values of the backing file system; seekdir takes a long. Where that is
 * too short, the preceding entry is searched for from the start.
 */
static void seek_to(DIR *dp, off_t off)
{
	struct dirent *d;

	if (off == (long)off) {
		seekdir(dp, (long)off);
		return;
	}
	rewinddir(dp);
	do
		d = readdir(dp);
	while (d && d->d_off != off);
}

/* The waits of an answer with up to this many entries say little: "." and ".." are among them. */
#define FEW 4

static void stand_at(struct dir *dir, off_t off)
{
	if (off == dir->at)
		return;
	if (off == 0)
		rewinddir(dir->dp);
	else
		seek_to(dir->dp, off);
	dir->at = off;
}

/* Reads the headers of about as many entries as the answer has room for. */
static void look_ahead(struct listing *l)
{
	struct finder finder = fs_finder(l->fs);
	struct dir *dir = l->dir;
	struct dirent *d;
	struct ahead a;
	size_t room = 0;

	if (ahead_threads(&finder) < 2)
		return;
	ahead_open(&a, &finder, dirfd(dir->dp));
	while (room < l->size && (d = readdir(dir->dp)) && ahead_add(&a, d) >= 0)
		room += l->plus ? fuse_add_direntry_plus(l->req, NULL, 0, d->d_name, NULL, 0)
				: fuse_add_direntry(l->req, NULL, 0, d->d_name, NULL, 0);
	seek_to(dir->dp, dir->at);
	l->waits += ahead_run(&a);
	ahead_close(&a);
}

/* An error counts only when nothing has been listed yet: the next call will meet it again. */
static int list_entries(struct listing *l)
{
	struct dir *dir = l->dir;
	struct dirent *d;

	for (;;) {
		errno = 0;
		d = readdir(dir->dp);
		if (!d)
			return errno && !l->out->n ? -errno : 0;
		if (!list_one(l, d)) { /* it will be read again next time */
			seek_to(dir->dp, dir->at);
			return 0;
		}
		dir->at = d->d_off;
		l->listed++;
	}
}

/*
 * If an answer had to wait for a disk, those that follow probably will, in this directory and the
 * next: then several threads look at their entries at a time.
 */
static int list_some(struct listing *l, off_t off)
{
	atomic_bool *waits = &l->fs->listings_wait;

	stand_at(l->dir, off);
	if (atomic_load(waits))
		look_ahead(l);
	uint64_t before = ahead_waits();
	int rc = list_entries(l);
	l->waits += ahead_waits() - before;
	if (l->listed > FEW)
		atomic_store(waits, l->waits > l->listed / 4);
	return rc;
}

static void reply_listing(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi,
			  bool plus)
{
	struct buf out = {0};
	struct listing l = {.req = req, .fs = ops_fs(req), .plus = plus, .out = &out, .size = size,
			    .inode = ops_handle(fi)->inode, .dir = ops_handle(fi)->dir};

	int rc = buf_reserve(&out, size);
	if (rc >= 0) {
		pthread_mutex_lock(&l.dir->lock);
		rc = list_some(&l, off);
		pthread_mutex_unlock(&l.dir->lock);
	}
	if (rc < 0)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_buf(req, (char *)out.p, out.n);
	buf_free(&out);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)ino;
	reply_listing(req, size, off, fi, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	(void)ino;
	reply_listing(req, size, off, fi, true);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct dir *d = ops_handle(fi)->dir;

	(void)ino;
	int rc = datasync ? fdatasync(dirfd(d->dp)) : fsync(dirfd(d->dp));
	fuse_reply_err(req, rc < 0 ? errno : 0);
}
