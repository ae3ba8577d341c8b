#include "fs/file/load.h"

#include "base/log.h"
#include "frame/view_npy.h"
#include "fs/file/open.h"
#include "fs/file/share.h"

#include <fcntl.h>

static int open_sparse(struct file *f, int fd)
{
	int dirfd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd < 0 ? -errno : frame_open_sparse_take(&f->frame, dirfd);
}

/* Its chunks can change without the directory changing: nothing that was cached is reused. */
static int load_sparse(struct file *f)
{
	struct inodes *inodes = f->fs->inodes;
	int fd = inode_pin(inodes, f->inode);

	TRY(fd);
	f->cache_owner = f->inode->cache_owner = cache_new_owner(f->fs->cache);
	int rc = open_sparse(f, fd);
	inode_unpin(inodes, f->inode);
	return rc;
}

/* Under n->lock, or with the file open. */
static void tell_torn(struct file *f)
{
	char name[INODE_LOG_NAME_MAX];

	if (!frame_went_back(f->frame) || f->inode->told.torn)
		return;
	f->inode->told.torn = true;
	inode_log_name(f->fs->inodes, f->inode, name);
	log_warn("%s: torn by a crash: went back to its newest whole state, %llu bytes", name,
		 (unsigned long long)frame_size(f->frame));
}

/*
 * A file that was created just before a power failure may have a name but no bytes. Its first
 * writer creates the frame.
 */
static int open_unborn(struct file *f, struct io *io)
{
	struct settings s = file_settings(f);
	struct pipeline p = policy_for_header(&s);

	if (!f->writable) {
		io_close(io);
		TRY(io_mem_open(&io, view_of("", 0)));
	}
	return frame_create_take(&f->frame, io, &p, (uint32_t)s.chunksize);
}

/* Sets what depends on the frame, which takes over what the inode knows of the one before it. */
static void follow_frame(struct file *f)
{
	if (f->writable)
		frame_remember_root(f->frame);
	if (f->inode->suspect || f->fs->sync_failed)
		frame_set_suspect(f->frame);
	if (f->inode->latest)
		frame_set_latest(f->frame);
	struct settings s = file_settings(f);
	policy_follow(&f->policy, &s, f->frame);
	/* A frame without one can only be read, but a write under way divides by this. */
	if (frame_info(f->frame)->chunk_size)
		f->chunk_size = frame_info(f->frame)->chunk_size;
	f->dirty.next = frame_nchunks(f->frame); /* the first chunk that it may grow by */
	arrivals_clear(&f->arrivals);
	f->maybe_typed = true;
	f->maybe_foreign = frame_info(f->frame)->type_size == 1 || frame_is_part(f->frame);
}

static int open_contiguous(struct file *f, int fd)
{
	uint64_t len;
	struct io *io;

	TRY(io_file_open(&io, fd));
	if (f->writable)
		file_load_wish(f);
	int rc = io_size(io, &len);
	bool empty = rc >= 0 && len == 0 && inode_kind(f->inode) == NODE_FRAME;
	if (empty)
		rc = open_unborn(f, io);
	else if (rc >= 0)
		rc = frame_open_take(&f->frame, io);
	else
		io_close(io);
	TRY(rc);
	f->unborn = empty && !f->writable; /* only now: after a failure the old frame stays */
	follow_frame(f);
	return 0;
}

/*
 * True: the size that the kernel was told when the file was looked up is not that of the frame: its
 * mode forbade reading it then, or only the open has found that a chunk of its newest root is
 * missing. Not while the log is replayed: the kernel knows nothing yet, and would not ask again.
 * Under n->lock.
 */
static bool was_told_wrong(struct file *f)
{
	struct inode *n = f->inode;
	struct probed is = {.kind = NODE_FRAME, .size = frame_size(f->frame),
			    .blocksize = frame_info(f->frame)->block_size};
	char name[NAME_MAX + 1];
	struct stat st;

	if (n->kernel.guessed)
		return true;
	if (inode_kind(n) != NODE_FRAME || !f->fs->session || !frame_went_back(f->frame) ||
	    stat_fd(f->fd, &st) < 0)
		return false;
	inode_name(f->fs->inodes, n, name);
	return name[0] && probe_correct(f->fs->probes, name, &st, &is);
}

/*
 * The array may have another shape than before, but stays at the same address, where readers look.
 */
static int load_npy(struct file *f)
{
	struct npy v = {0};
	int rc = npy_init(&v, f->frame);

	if (rc >= 0 && !f->npy) {
		f->npy = mem_zalloc(sizeof v);
		rc = f->npy ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		npy_deinit(&v);
		return rc;
	}
	npy_deinit(f->npy);
	*f->npy = v;
	return 0;
}

/* The frame was just created by us, and its descriptor is the inode's: nothing is read back. */
static void load_newborn_take(struct file *f, struct newborn *b)
{
	struct inode *n = f->inode;

	f->fd = n->fd;
	f->writable = true;
	f->frame = b->frame;
	f->wish = b->wish;
	b->frame = NULL;
	seen_ours(n, &b->st);
	f->cache_owner = n->cache_owner = cache_new_owner(f->fs->cache);
	follow_frame(f);
}

/*
 * Enters the sidecar. -EAGAIN: another program has the lock, and the caller should wait for it,
 * with n->lock released. If it has waited in vain (`unlocked`), the file is opened without the
 * lock.
 */
static int enter_to_open(struct file *f, const struct opening *o)
{
	struct sidecar *s = &f->sidecar;

	if (o->unlocked) {
		sidecar_know(s, &o->busy);
		int how = sidecar_enter_soon(s);
		return how < 0 ? SIDECAR_NONE : how;
	}
	/* Not even for a moment: n->lock is held, so the moments of many openers would add up. */
	int how = sidecar_try_enter_store(s);
	sidecar_seen(s, how);
	return how;
}

/* In the sidecar. */
static int read_contiguous(struct file *f)
{
	struct inode *n = f->inode;
	bool unsure = n->seen.unsure; /* until file_revalidate */

	file_revalidate(f);
	TRY(open_contiguous(f, f->fd));
	if (inode_kind(n) == NODE_ARRAY)
		TRY(load_npy(f));
	if (unsure) /* it may have changed since, with only its size to tell */
		n->kernel.mistaken |= file_size(f) != n->kernel.size;
	if (was_told_wrong(f))
		inode_give_up(f->fs->inodes, n);
	else
		tell_torn(f);
	return 0;
}

static int load_contiguous(struct file *f, const struct opening *o)
{
	struct inode *n = f->inode;
	/*
	 * It was just created: nobody shares it yet, and it has a descriptor, which may allow more
	 * than its mode allows a new one.
	 */
	bool made = n->promoted;

	f->fd = made ? n->fd
		     : inode_promote(f->fs->inodes, n, o->writable ? O_RDWR : O_RDONLY);
	TRY(f->fd);
	f->writable = o->writable;
	if (!made)
		TRY(file_look_sidecar(f));
	int how = enter_to_open(f, o);
	TRY(how);
	int rc = read_contiguous(f);
	sidecar_leave(&f->sidecar, how);
	return rc;
}

int file_load(struct file *f, const struct opening *o)
{
	f->fd = -1;
	if (o->born) {
		load_newborn_take(f, o->born);
		return 0;
	}
	return inode_kind(f->inode) == NODE_SPARSE ? load_sparse(f) : load_contiguous(f, o);
}

int file_load_again(struct file *f)
{
	struct frame *old = f->frame;

	/* for follow_frame, now and when the file is made writable */
	f->inode->suspect = frame_suspect(old);
	f->inode->latest = false;
	TRY(open_contiguous(f, f->fd)); /* after a failure its handles still read the old frame */
	int rc = f->npy ? load_npy(f) : 0;
	if (rc < 0) {
		frame_close(f->frame);
		f->frame = old;
		return rc;
	}
	tell_torn(f);
	frame_close(old);
	touched_whole(&f->unsynced.touched);
	f->cache_owner = cache_new_owner(f->fs->cache);
	return 0;
}

int file_make_writable(struct file *f)
{
	pthread_rwlock_wrlock(&f->lock);
	bool was = f->writable;
	int rc = was ? 0 : inode_promote(f->fs->inodes, f->inode, O_RDWR);
	if (rc >= 0 && !was) {
		f->writable = true;
		file_load_wish(f);
		follow_frame(f); /* for sync_failed: a sync may have failed since the open */
	}
	if (rc >= 0 && f->unborn)
		rc = file_load_again(f);
	if (rc < 0)
		f->writable = was;
	pthread_rwlock_unlock(&f->lock);
	return rc < 0 ? rc : 0;
}
