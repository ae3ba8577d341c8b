#include "fs/ops/ops.h"

#include "base/log.h"
#include "base/meter.h"
#include "fs/dirty/workspace.h"
#include "fs/file/open.h"
#include "fs/file/share.h"
#include "fs/inode/times.h"
#include "fs/keeper.h"
#include "fs/stats.h"

#include <sys/statvfs.h>
#include <unistd.h>

#define TELL_AGAIN_NS 60000000000u

struct inode *ops_inode(struct fs *fs, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? inodes_root(fs->inodes) : (struct inode *)(uintptr_t)ino;
}

int ops_errno(int rc)
{
	if (rc == -EBADMSG || rc == -ENOTSUP)
		return EIO;
	return rc == -E2BIG ? EFBIG : -rc;
}

bool ops_is_damage(int rc)
{
	return rc == -EBADMSG || rc == -ENOTSUP || rc == -EIO;
}

void ops_tell_limit(int rc)
{
	static _Atomic uint64_t next; /* meter_now */

	if (rc != -EMFILE && rc != -ENFILE)
		return;
	uint64_t now = meter_now(), due = atomic_load(&next);
	if (now < due || !atomic_compare_exchange_strong(&next, &due, now + TELL_AGAIN_NS))
		return; /* told, or somebody else does */
	if (rc == -EMFILE)
		log_err("too many open files: the limit of the daemon is %lu descriptors; "
			"ulimit -Hn raises it, before it mounts",
			backing_raise_nofile());
	else
		log_err("too many open files in the system: sysctl fs.file-max raises that limit");
}

void ops_log(struct fs *fs, struct inode *n, const char *what, int rc)
{
	char name[NAME_MAX + 1], text[200];

	/* Mistakes of the application: a length beyond the limit, a right that it does not have. */
	if (rc == -EFBIG || rc == -EROFS || rc == -EACCES)
		return;
	if (rc == -E2BIG) /* has been told */
		return;
	inode_log_name(fs->inodes, n, name);
	log_err("%s: %s: %s", name, what, err_text(rc, text, sizeof text));
}

/* The size of requests that st_blksize advises: a block, within reason. */
#define BLKSIZE (64 << 10)
#define BLKSIZE_MIN 4096
#define BLKSIZE_MAX (1u << 20)

/*
 * From the attributes of the backing file in *st to those that the mount shows. The size of a frame
 * whose file is not open comes from the probe of the entry.
 */
static void show_attr(struct inode *n, const struct probed *probed, struct stat *st)
{
	times_apply(n, st);
	if (!inode_is_frame(n))
		return;
	if (inode_kind(n) != NODE_FRAME) {
		st->st_mode &= ~(mode_t)(S_IFMT | 0222);
		st->st_mode |= S_IFREG;
	}
	if (inode_kind(n) == NODE_SPARSE) {
		st->st_mode &= ~(mode_t)0111;
		st->st_nlink = 1;
	}
	st->st_size = (off_t)probed->size; /* of a file that is not open */
	st->st_blksize = BLKSIZE;
	if (probed->blocksize >= BLKSIZE_MIN)
		st->st_blksize = (blksize_t)min_u64(probed->blocksize, BLKSIZE_MAX);
	pthread_mutex_lock(&n->lock);
	/* last_size: it was closed while we looked, or opened before its mode forbade reading. */
	if (n->file)
		st->st_size = (off_t)file_size(n->file);
	else if (probed->open || (probed->guess && n->cache_owner))
		st->st_size = (off_t)n->last_size;
	pthread_mutex_unlock(&n->lock);
}

/*
 * Reads an open frame anew if another program has changed it. True: it has, also where reading it
 * failed. Under n->lock.
 */
static bool reload_if_foreign(struct inode *n, const struct stat *st)
{
	if (!file_is_foreign(n, st))
		return false;
	if (inode_kind(n) != NODE_FRAME)
		return true;
	if (file_look_sidecar(n->file) < 0)
		return false; /* nor is it known: at the next look */
	int rc = file_reload_inode_locked(n->file, false);
	return rc != 0 && rc != -EAGAIN; /* who changes it has the lock: when that is done */
}

/*
 * What a frame that nobody has open is, as long as nobody else changes it: then it need not be read
 * for its new ctime or mtime, which a rename, too, brings.
 */
static bool recall(struct inode *n, const struct stat *st, struct probed *out)
{
	pthread_mutex_lock(&n->lock);
	bool known = n->sized && !n->file && !n->mistaken && inode_kind(n) != NODE_SPARSE &&
		     !file_is_foreign(n, st);
	if (known)
		*out = (struct probed){
			.kind = inode_kind(n), .size = n->last_size, .blocksize = n->last_block};
	pthread_mutex_unlock(&n->lock);
	return known;
}

/* `entered`: the kernel has the inode, and keeps its size whatever it is told now. */
static int load_attr(struct fs *fs, struct inode *n, bool entered, struct stat *st)
{
	struct probed probed = {.kind = inode_kind(n), .open = true};
	char name[NAME_MAX + 1];

	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	int rc = stat_fd(fd, st);
	pthread_mutex_lock(&n->lock);
	if (rc >= 0 && n->file)
		(void)reload_if_foreign(n, st);
	pthread_mutex_unlock(&n->lock);
	if (rc >= 0 && inode_is_frame(n) && inodes_open_kind(fs->inodes, st) == NODE_PLAIN &&
	    !(entered && recall(n, st, &probed))) {
		inode_name(fs->inodes, n, name);
		struct probe_entry what = {fd, -1, name, st, NULL};
		rc = probe_get(fs->probes, &fs->backing, &what, &probed);
	}
	inode_unpin(fs->inodes, n);
	if (rc >= 0)
		show_attr(n, &probed, st);
	return rc;
}

int ops_attr(struct fs *fs, struct inode *n, struct stat *st)
{
	return load_attr(fs, n, true, st);
}

/*
 * True: all users of the open file only read it. One that writes, is about to, or has just closed
 * it, would otherwise write to a file that by then belongs to another inode. Under n->lock.
 */
static bool has_only_readers(const struct inode *n)
{
	unsigned readers = 0;

	for (const struct handle *h = n->handles; h; h = h->next) {
		if (h->writable)
			return false;
		readers += h->file != NULL;
	}
	readers += n->push != NULL; /* it reads, too */
	return n->nopen == readers;
}

/*
 * True: another program has changed a file that nobody has open. If its attributes prove nothing,
 * only the size counts: the kernel goes on to believe that and nothing else, since no old pages are
 * kept when the file is opened. Under n->lock.
 */
static bool was_changed(const struct inode *n, const struct entry *e, const struct stat *st)
{
	bool as_told = !e->probed.open && e->probed.size == n->told_size;

	return file_is_foreign(n, st) && !(as_told && file_is_settled(n, st) && !n->unread);
}

/*
 * Gives up the inode that the kernel knows for an entry, if the file is not what it was: the entry
 * then gets a new inode. With the writeback cache the kernel trusts its own size and times of an
 * inode, whatever we answer, so that there is no other way to tell it of a change by another
 * program, or of a new file that got the inode number of a removed one. Readers that have the file
 * open go on with the old inode; while somebody writes, it stays.
 *
 * *settled: the file was looked at before, long enough ago, and is still the same. The new inode
 * then need not be looked at again: with an mtime in the future that would never end.
 */
static void detach_if_changed(struct fs *fs, const struct entry *e, bool *settled)
{
	struct stat st;

	*settled = false;
	struct inode *n = inode_known(fs->inodes, e);
	if (!n)
		return;
	bool other = inode_is_other(fs->inodes, n, e);
	bool parted = inode_has_parted(fs->inodes, n);
	pthread_mutex_lock(&n->lock);
	/* e->st may be older than our own last commit: the file is asked once more. */
	bool known = e->fd < 0 ? (st = e->st, true) : stat_fd(e->fd, &st) == 0;
	*settled = known && !other && !n->mistaken && file_is_settled(n, &st);
	bool changed = known && (n->file ? reload_if_foreign(n, &st) : was_changed(n, e, &st));
	changed |= n->mistaken || (n->guessed && !e->probed.guess);
	changed &= n->nwriters == 0;
	other &= !n->handles; /* an open file still has its number */
	if (n->file && (other || changed))
		IGNORE(has_only_readers(n) && file_detach(n->file)); /* or at the next lookup */
	else if (other || changed || parted)
		inode_detach(fs->inodes, n);
	pthread_mutex_unlock(&n->lock);
	inode_put(fs->inodes, n, 1);
}

void ops_seen(struct inode *n, const struct stat *st)
{
	if (inode_is_frame(n) || n->type != S_IFREG)
		return;
	pthread_mutex_lock(&n->lock);
	if (n->nwriters == 0)
		n->seen = *st;
	pthread_mutex_unlock(&n->lock);
}

/*
 * Notes the attributes that the kernel gets when it first hears of a frame, and keeps. A change
 * that came right before may not show in them (`doubt`): then they are compared once more later.
 */
static void note_entry(struct inode *n, const struct entry *e, bool settled)
{
	if (!inode_is_frame(n)) {
		ops_seen(n, &e->st);
		return;
	}
	pthread_mutex_lock(&n->lock);
	if (!n->file && !n->seen.st_ino) {
		bool doubt = e->probed.fresh && !e->made && !settled;
		n->unsure = doubt ? meter_now() + BACKING_STEP_NS : 0;
		n->seen = e->st;
		n->guessed = e->probed.guess;
		n->sized = !e->probed.open && !e->probed.guess;
		if (n->sized)
			n->last_size = e->probed.size;
		n->last_block = e->probed.blocksize;
		n->told_size = e->probed.size;
	}
	pthread_mutex_unlock(&n->lock);
}

int ops_enter(struct fs *fs, struct inode *parent, struct entry *e, struct fuse_entry_param *out)
{
	bool settled;
	int rc = 0;

	detach_if_changed(fs, e, &settled);
	struct inode *n = inode_from_entry(fs->inodes, parent, e);
	if (!n)
		return -ENOMEM;
	note_entry(n, e, settled);
	*out = (struct fuse_entry_param){
		.ino = ops_ino(fs, n),
		.attr = e->st,
		.entry_timeout = fs->opt.entry_timeout,
		.attr_timeout = fs->opt.attr_timeout,
	};
	if (!e->probed.open)
		show_attr(n, &e->probed, &out->attr);
	else /* it may have been closed since */
		rc = load_attr(fs, n, false, &out->attr);
	if (rc < 0)
		inode_put(fs->inodes, n, 1);
	return rc;
}

struct handle *ops_new_handle(struct fs *fs, struct inode *n, struct fuse_file_info *fi)
{
	struct handle *h = mem_zalloc(sizeof *h);
	if (!h)
		return NULL;
	h->inode = n;
	h->fd = -1;
	h->writable = (fi->flags & O_ACCMODE) != O_RDONLY;
	inode_get(fs->inodes, n);
	pthread_mutex_lock(&n->lock);
	h->next = n->handles;
	h->link = &n->handles;
	if (h->next)
		h->next->link = &h->next;
	n->handles = h;
	pthread_mutex_unlock(&n->lock);
	fi->fh = (uintptr_t)h;
	return h;
}

void ops_close_handle(struct fs *fs, struct handle *h)
{
	struct inode *n = h->inode;

	pthread_mutex_lock(&n->lock);
	*h->link = h->next;
	if (h->next)
		h->next->link = h->link;
	bool counted = h->writable && (h->file || h->fd >= 0);
	n->nwriters -= counted;
	if (counted && h->fd >= 0)
		(void)stat_fd(h->fd, &n->seen); /* these changes were ours */
	pthread_mutex_unlock(&n->lock);
	if (h->file)
		file_put(fs, n);
	if (h->dir)
		ops_close_dir(fs, h->dir);
	if (h->fd >= 0) {
		close(h->fd);
		inodes_others_add(fs->inodes, -1);
	}
	inode_put(fs->inodes, n, 1);
	mem_free(h);
}

void ops_nameless(struct fs *fs, struct inode *n)
{
	inode_nameless(fs->inodes, n);
	kept_nameless(fs, n);
}

void ops_close_all(struct fs *fs)
{
	struct inode *n;

	while ((n = inodes_any_open(fs->inodes)))
		ops_close_handle(fs, n->handles);
}

/* Requests nobody waits for, such as read-ahead, that the kernel sends at a time. */
#define BACKGROUND_MOST 64

static void want(struct fuse_conn_info *conn, unsigned cap)
{
	conn->want |= conn->capable & cap;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	want(conn, FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_WRITEBACK_CACHE |
			   FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
			   FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ATOMIC_O_TRUNC |
			   FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_SPLICE_WRITE |
			   FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_POSIX_ACL);
	if (caller_own_umask())
		want(conn, FUSE_CAP_DONT_MASK);
	/*
	 * ACLs are kept by the backing file system and judged by the kernel. Where a directory has
	 * a default ACL the umask does not count, so it comes to us apart from the mode.
	 *
	 * Locks of all sorts are the kernel's: a blocking lock in a daemon can't be interrupted.
	 * wire.h settles who clears set-id bits. The kernel's pages are invalidated by us, at open,
	 * not by guessing from mtime.
	 */
	conn->want &= ~(unsigned)(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS |
				  FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_AUTO_INVAL_DATA |
				  FUSE_CAP_SPLICE_READ);
	/* as in the mount options, or libfuse gives up */
	conn->max_read = (unsigned)fs->opt.max_read;
	conn->max_background = BACKGROUND_MOST;
	conn->congestion_threshold = BACKGROUND_MOST / 4 * 3;
	conn->time_gran = 1;
	keeper_wake(fs->keeper);
}

static void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	(void)ino, (void)mask;
	fuse_reply_err(req, ENOSYS); /* default_permissions: the kernel knows */
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = ops_fs(req);
	struct statvfs st;

	(void)ino;
	if (fstatvfs(fs->backing.root, &st) < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	st.f_namemax = NAMES_MAX;
	fuse_reply_statfs(req, &st);
}

#define BIT(name) (1ull << OPS_KIND_##name)

static const uint64_t changing =
	BIT(setattr) | BIT(mknod) | BIT(mkdir) | BIT(symlink) | BIT(unlink) | BIT(rmdir) |
	BIT(rename) | BIT(link) | BIT(create) | BIT(write) | BIT(fallocate) |
	BIT(copy_file_range) | BIT(setxattr) | BIT(removexattr)
#ifdef HAVE_TMPFILE
	| BIT(tmpfile)
#endif
	;

/*
 * The kernel forgets -o ro at a remount. We do not: other readers may have the directory, and an
 * intent log that was left there has not been applied.
 */
static bool is_refused(fuse_req_t req, enum ops_kind kind)
{
	return changing >> kind & 1 && ops_fs(req)->opt.read_only;
}

/*
 * Each callback as the session calls it: counted first, so that whoever has its answer finds it
 * counted, and timed.
 */
#define OPS_COUNTED(name, params, args, timer)                                                     \
	static void counted_##name params                                                          \
	{                                                                                          \
		uint64_t start = meter_now();                                                      \
		stats_add(STATS_REQUESTS + (int)OPS_KIND_##name, 1);                               \
		if (is_refused(req, OPS_KIND_##name))                                              \
			fuse_reply_err(req, EROFS);                                                \
		else                                                                               \
			op_##name args;                                                            \
		workspace_trim();                                                                  \
		meter_time(STATS_TIME_##timer, start);                                             \
	}
OPS_EACH(OPS_COUNTED)

#define OPS_ROW(name, params, args, timer) .name = counted_##name,
const struct fuse_lowlevel_ops ops_table = {
	.init = op_init,
	.access = op_access,
	OPS_EACH(OPS_ROW)
};
