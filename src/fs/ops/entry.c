/*
 * What the kernel is told of an entry: its inode, and its attributes. This is where we notice that
 * another program has changed a file, or replaced it by another.
 */
#include "fs/ops/ops.h"

#include "base/clock.h"
#include "base/meter.h"
#include "fs/file/share.h"
#include "fs/inode/caps.h"
#include "fs/inode/seen.h"
#include "fs/inode/times.h"

/* The request size that st_blksize advises: a block, within limits. */
#define BLKSIZE (64 << 10)
#define BLKSIZE_MIN 4096
#define BLKSIZE_MAX (1u << 20)

#define SPREAD UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio: spreads small numbers */

/*
 * The numbers of one device stay distinct. Programs take equal numbers for one file: find and du
 * skip the second directory, cp -a and tar link files with several names to the wrong content.
 */
uint64_t ops_number(const struct fs *fs, const struct stat *st)
{
	dev_t own = inodes_root(fs->inodes)->key.dev;
	return st->st_dev == own ? st->st_ino : st->st_ino ^ st->st_dev * SPREAD;
}

/*
 * From the attributes of the backing file in *st to those that the mount shows. The size of a frame
 * whose file is not open comes from the probe of the entry.
 */
static void show_attr(const struct fs *fs, struct inode *n, const struct probed *probed,
		      struct stat *st)
{
	st->st_ino = ops_number(fs, st);
	times_show(n, st);
	caps_show_mode(n, st);
	if (!inode_is_frame(n))
		return;
	if (inode_kind(n) != NODE_FRAME) {
		st->st_mode &= ~(mode_t)(S_IFMT | 0222);
		st->st_mode |= S_IFREG;
	}
	if (inode_kind(n) == NODE_SPARSE) {
		st->st_mode &= ~(mode_t)07111; /* these bits are a directory's */
		st->st_nlink = 1;
	}
	st->st_size = (off_t)probed->size; /* if the file is not open */
	st->st_blksize = BLKSIZE;
	uint32_t block = probed->blocksize + probed->blocksize % 2; /* see frame_block_size */
	if (block >= BLKSIZE_MIN)
		st->st_blksize = (blksize_t)min_u64(block, BLKSIZE_MAX);
	pthread_mutex_lock(&n->lock);
	/* n->sizes: the file was closed meanwhile, or was open before its mode forbade reading. */
	if (n->file)
		st->st_size = (off_t)file_size(n->file);
	else if (probed->in_use || (probed->guess && n->cache_owner))
		st->st_size = (off_t)n->sizes.size;
	pthread_mutex_unlock(&n->lock);
	/* tar -S does not read a file without blocks; many disks have none for a directory. */
	if (st->st_size && !st->st_blocks)
		st->st_blocks = 1;
}

/*
 * Reloads an open frame if another program has changed it. 1: it has, even if the reload failed, or
 * has to wait (file_reload_inode_locked). -EAGAIN: a thread of ours has the gate. Under n->lock.
 */
static int reload_if_foreign(struct inode *n, const struct stat *st)
{
	if (!seen_is_foreign(n, st))
		return 0;
	if (inode_kind(n) == NODE_SPARSE)
		return 1;
	if (file_look_sidecar(n->file) < 0)
		return 0; /* not known yet: the next look will tell */
	int rc = file_reload_inode_locked(n->file);
	if (rc != -EAGAIN)
		return rc != 0;
	/* Beside a lock file it is the writer that has the lock: look again later. */
	return n->file->sidecar.there ? 0 : rc;
}

/*
 * The kind and sizes of a frame that is not open, unless another program has changed it: then a new
 * ctime or mtime, which even a rename brings, does not mean reading it.
 */
static bool recall(struct inode *n, const struct stat *st, struct probed *out)
{
	pthread_mutex_lock(&n->lock);
	bool known = n->sizes.known && !n->file && !n->kernel.mistaken &&
		     inode_kind(n) != NODE_SPARSE && !seen_is_foreign(n, st);
	if (known)
		*out = (struct probed){
			.kind = inode_kind(n), .size = n->sizes.size, .blocksize = n->sizes.block};
	pthread_mutex_unlock(&n->lock);
	return known;
}

static int probe_again(struct fs *fs, struct inode *n, int fd, const struct stat *st,
		       struct probed *out)
{
	char name[NAME_MAX + 1];
	struct probe_entry what = {.fd = fd, .dirfd = -1, .name = name, .st = st};

	inode_name(fs->inodes, n, name);
	return probe_get(fs->probes, &fs->backing, &what, out);
}

static void reload_open(struct inode *n, const struct stat *st)
{
	pthread_mutex_lock(&n->lock);
	if (n->file)
		(void)reload_if_foreign(n, st);
	pthread_mutex_unlock(&n->lock);
}

/*
 * What a frame is now, if it is not open. RECALLED: what was found last time may do, unless another
 * program has changed the file since: the kernel has the inode, and keeps its own size whatever we
 * answer. PROBED: not for an inode that the kernel is about to get.
 */
enum attr_from { RECALLED, PROBED };

static int load_pinned(struct fs *fs, struct inode *n, int fd, enum attr_from from, struct stat *st)
{
	struct probed probed = {.kind = inode_kind(n), .in_use = true};

	TRY(stat_fd(fd, st));
	if (inode_kind(n) == NODE_SPARSE)
		frame_stat_sparse(fd, st);
	reload_open(n, st);
	bool closed = inode_is_frame(n) && inodes_open_kind(fs->inodes, st) == NODE_PLAIN;
	if (closed && !(from == RECALLED && recall(n, st, &probed)))
		TRY(probe_again(fs, n, fd, st, &probed));
	show_attr(fs, n, &probed, st);
	return 0;
}

static int load_attr(struct fs *fs, struct inode *n, enum attr_from from, struct stat *st)
{
	int fd = inode_pin(fs->inodes, n);
	TRY(fd);
	int rc = load_pinned(fs, n, fd, from, st);
	inode_unpin(fs->inodes, n);
	return rc;
}

int ops_attr(struct fs *fs, struct inode *n, struct stat *st)
{
	return load_attr(fs, n, RECALLED, st);
}

/*
 * True: all users of the open file only read it. A user that writes, is about to, or is closing the
 * file, would otherwise write to a file that by then belongs to another inode. Under n->lock.
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
 * True: what keeps the inode of an open file ends by itself, such as the last close, a request for
 * an attribute, or an open that will be refused (handle.c). (Beside a lock file it may wait for
 * another program.) Under n->lock.
 */
static bool is_kept_briefly(const struct inode *n)
{
	for (const struct handle *h = n->handles; h; h = h->next)
		if (h->writable && h->opened)
			return false;
	return !n->file->kept && !n->file->sidecar.there && !file_changed(n->file);
}

/*
 * True: another program has changed a file that is not open. If its attributes prove nothing, only
 * the size counts: that is all the kernel would go on to believe, since old pages are dropped when
 * the file is opened. Under n->lock.
 */
static bool was_changed(const struct inode *n, const struct entry *e, const struct stat *st)
{
	bool as_told = !e->probed.in_use && e->probed.size == n->kernel.size;

	return seen_is_foreign(n, st) && !(as_told && seen_is_settled(n, st) && !n->seen.unread);
}

/*
 * The present attributes of an entry, since those in e->st may be older than our own last commit;
 * NULL: they are not known.
 */
static const struct stat *look_again(const struct entry *e, struct stat *now)
{
	if (e->probed.kind == NODE_SPARSE)
		return &e->st; /* with those of the index; and we make no commits */
	*now = e->st;
	return e->fd < 0 || stat_fd(e->fd, now) == 0 ? now : NULL;
}

/*
 * True: what the kernel has of the file is wrong, and not about to be changed through the mount.
 * `reloaded`: what reload_if_foreign has returned, if it is open. Under n->lock.
 */
static bool is_outdated(const struct inode *n, const struct entry *e, const struct stat *st,
			int reloaded)
{
	bool changed = n->file ? reloaded > 0 : st && was_changed(n, e, st);

	changed |= n->kernel.mistaken || (n->kernel.guessed && !e->probed.guess);
	return changed && n->nwriters == 0;
}

/* False: somebody still needs it, who has its file open. Under n->lock. */
static bool give_up(struct fs *fs, struct inode *n)
{
	if (n->file)
		return has_only_readers(n) && file_detach(n->file);
	inode_detach(fs->inodes, n);
	return true;
}

/*
 * One try of detach_if_changed, with its result in *settled. False: the inode would be given up,
 * but a request that will end soon still needs it.
 */
static bool try_detach(struct fs *fs, const struct entry *e, struct inode *n, bool *settled)
{
	bool other = inode_is_other(fs->inodes, n, e);
	bool parted = inode_has_parted(fs->inodes, n);
	struct stat now;

	pthread_mutex_lock(&n->lock);
	const struct stat *st = look_again(e, &now);
	*settled = st && !other && !n->kernel.mistaken && seen_is_settled(n, st);
	int reloaded = st && n->file ? reload_if_foreign(n, st) : 0;
	/* an open file still has its number */
	bool past = is_outdated(n, e, st, reloaded) || (other && !n->handles);
	bool stays = past && !give_up(fs, n);
	if (parted && !past)
		inode_detach(fs->inodes, n);
	bool soon = (stays || reloaded == -EAGAIN) && !n->detached && is_kept_briefly(n);
	pthread_mutex_unlock(&n->lock);
	return !soon;
}

/*
 * How long a lookup waits for requests that need the old inode, and the longest pause between two
 * looks.
 */
#define SOON_NS CLOCK_SECOND
#define NAP_MAX_NS (5 * CLOCK_MS)

/*
 * Gives up the inode that the kernel knows for an entry, if the file is not what it was: the entry
 * then gets a new inode. With the writeback cache the kernel trusts its own size and times of an
 * inode, whatever we answer, so that there is no other way to tell it of a change by another
 * program, or of a new file that got the inode number of a removed one. Readers that have the file
 * open go on with the old inode; while there are writers, it stays.
 *
 * True: the file was looked at before, long enough ago, and is still the same. Then the new inode
 * need not be compared once more: with an mtime in the future that would never end.
 */
static bool detach_if_changed(struct fs *fs, const struct entry *e)
{
	struct inode *n = inode_known(fs->inodes, e);
	uint64_t nap = CLOCK_NAP, began = meter_now();
	bool settled, relieved = false;

	if (!n)
		return false;
	while (!try_detach(fs, e, n, &settled) && meter_now() - began < SOON_NS) {
		relieved = relieved || relief_begin(&fs->relief);
		clock_nap(&nap, NAP_MAX_NS);
	}
	relief_end(&fs->relief, relieved);
	inode_put(fs->inodes, n, 1);
	return settled;
}

void ops_changed(struct fs *fs, struct inode *n, int fd)
{
	times_touch_inode(n);
	IGNORE(inode_renumber(fs->inodes, n, fd));
}

void ops_plain_begin(struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	n->nwriters++;
	pthread_mutex_unlock(&n->lock);
}

void ops_plain_end(struct inode *n, int fd)
{
	struct stat st;

	pthread_mutex_lock(&n->lock);
	n->nwriters--;
	if (fd >= 0 && stat_fd(fd, &st) == 0)
		seen_ours(n, &st); /* changes by others meanwhile count as ours */
	pthread_mutex_unlock(&n->lock);
}

/*
 * Notes the attributes that the kernel gets when it first learns of a file, and keeps. They may not
 * show a change to a frame right before (`doubt`): then they are compared once more later.
 */
static void note_entry(struct inode *n, const struct entry *e, bool settled)
{
	if (!inode_is_frame(n) && n->type != S_IFREG)
		return;
	pthread_mutex_lock(&n->lock);
	if (!n->file && !seen_any(n)) {
		seen_set(n, &e->st,
			 inode_is_frame(n) && e->probed.fresh && !e->made && !settled);
		n->kernel.guessed = e->probed.guess;
		n->sizes.known = !e->probed.in_use && !e->probed.guess;
		if (n->sizes.known)
			n->sizes.size = e->probed.size;
		n->sizes.block = e->probed.blocksize;
		n->kernel.size = e->probed.size;
	}
	pthread_mutex_unlock(&n->lock);
}

int ops_enter(struct fs *fs, struct inode *parent, struct entry *e, struct fuse_entry_param *out)
{
	bool settled = detach_if_changed(fs, e);
	int rc = 0;

	struct inode *n = inode_from_entry(fs->inodes, parent, e);
	if (!n)
		return -ENOMEM;
	note_entry(n, e, settled);
	*out = (struct fuse_entry_param){
		.ino = ops_ino(fs, n),
		.generation = n->generation,
		.attr = e->st,
		.entry_timeout = fs->opt.entry_timeout,
		.attr_timeout = fs->opt.attr_timeout,
	};
	if (!e->probed.in_use)
		show_attr(fs, n, &e->probed, &out->attr);
	else /* it may have been closed since */
		rc = load_attr(fs, n, PROBED, &out->attr);
	if (rc < 0)
		inode_put(fs->inodes, n, 1);
	return rc;
}

int ops_enter_found(struct fs *fs, struct inode *parent, int dirfd, const char *name,
		    struct fuse_entry_param *out)
{
	struct finder finder = fs_finder(fs);
	struct entry e;

	unsigned before = inodes_renames(fs->inodes);
	TRY(entry_find(&finder, dirfd, name, &e));
	TRY(ops_enter(fs, parent, &e, out));
	/*
	 * The kernel may look up a name that it knows at any time, even while a request changes it.
	 */
	if (!before || inodes_renames(fs->inodes) != before)
		(void)inode_link_check(fs->inodes, ops_inode(fs, out->ino), parent, dirfd,
				       e.backing);
	return 0;
}

void ops_reply_entry(fuse_req_t req, int rc, const struct fuse_entry_param *e)
{
	struct fs *fs = ops_fs(req); /* the reply frees req */

	ops_tell_limit(rc);
	if (rc < 0) {
		fuse_reply_err(req, -rc);
	} else if (fuse_reply_entry(req, e) < 0) {
		/* Interrupted: the kernel never learned of its reference. */
		inode_put(fs->inodes, ops_inode(fs, e->ino), 1);
	}
}
