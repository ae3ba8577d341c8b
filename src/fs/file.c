#include "fs/file.h"

#include "base/log.h"
#include "fs/flush.h"
#include "fs/policy.h"
#include "fs/times.h"
#include "fs/view_npy.h"
#include "fs/workspace.h"

#include <assert.h>
#include <unistd.h>

static bool same_content(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Cached blocks outlive a close, but not a change by somebody else. Under n->lock. */
static void revalidate(struct fs *fs, struct inode *n, int fd)
{
	struct stat st;

	if (stat_fd(fd, &st) < 0)
		return;
	if (!n->cache_owner || !same_content(&st, &n->seen))
		n->cache_owner = cache_new_owner(fs->cache);
	n->seen = st;
}

/* New chunks are written as the frame's others are, when we can. */
static void pipeline_of_frame(struct file *f)
{
	struct pipeline p = policy_recover_item(&frame_info(f->frame)->pipeline);
	char why[160];

	f->pipeline = pipeline_check(&p, why, sizeof why) < 0 ? f->fs->opt.pipeline : p;
	f->has_bytewise = policy_bytewise(&f->pipeline, &f->bytewise);
	f->items_whole = true;
}

/* An empty file, new or truncated, takes up what the mount says now. */
void file_adopt_pipeline(struct file *f)
{
	struct pipeline p = f->fs->opt.pipeline;

	policy_note_item(&p);
	frame_set_pipeline(f->frame, &p);
	pipeline_of_frame(f);
}

static void file_free(struct file *f)
{
	if (!f)
		return;
	frame_close(f->frame);
	mem_free(f->npy);
	pthread_cond_destroy(&f->landed);
	pthread_mutex_destroy(&f->flight_lock);
	pthread_rwlock_destroy(&f->lock);
	pthread_rwlock_destroy(&f->gate);
	mem_free(f);
}

static struct file *file_new(struct fs *fs, struct inode *n)
{
	pthread_rwlockattr_t attr;
	struct file *f = mem_zalloc(sizeof *f);

	if (!f)
		return NULL;
	f->fs = fs;
	f->inode = n;
	/* The default lets a stream of readers keep writers out for ever. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&f->gate, &attr);
	pthread_rwlock_init(&f->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&f->flight_lock, NULL);
	pthread_cond_init(&f->landed, NULL);
	return f;
}

static int open_sparse(struct file *f, int fd)
{
	int dirfd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd < 0 ? -errno : frame_open_sparse_take(&f->frame, dirfd);
}

static int open_contiguous(struct file *f, int fd)
{
	struct io *io;

	TRY(io_file_open(&io, fd, false));
	TRY(frame_open_take(&f->frame, io));
	pipeline_of_frame(f);
	return 0;
}

static int open_npy(struct file *f)
{
	f->npy = mem_zalloc(sizeof *f->npy);
	return f->npy ? npy_init(f->npy, f->frame) : -ENOMEM;
}

static int open_frame(struct file *f, bool writable)
{
	struct inodes *inodes = f->fs->inodes;
	enum node_kind kind = inode_kind(f->inode);
	int fd;

	if (kind == NODE_SPARSE) {
		fd = inode_pin(inodes, f->inode);
		TRY(fd);
		/* Its chunks can change without the directory changing: nothing cached is kept. */
		f->inode->cache_owner = cache_new_owner(f->fs->cache);
		int rc = open_sparse(f, fd);
		inode_unpin(inodes, f->inode);
		return rc;
	}
	fd = inode_promote(inodes, f->inode, writable ? O_RDWR : O_RDONLY);
	TRY(fd);
	revalidate(f->fs, f->inode, fd);
	int rc = open_contiguous(f, fd);
	if (rc >= 0 && kind == NODE_ARRAY)
		rc = open_npy(f);
	f->writable = writable;
	return rc;
}

static void close_frame(struct file *f)
{
	struct inode *n = f->inode;
	struct inodes *inodes = f->fs->inodes;

	file_free(f);
	if (inode_kind(n) != NODE_SPARSE && n->promoted)
		inode_demote(inodes, n);
}

/* From reading to reading and writing, under the feet of the readers. */
static int make_writable(struct file *f)
{
	if (f->writable)
		return 0;
	pthread_rwlock_wrlock(&f->lock);
	int fd = inode_promote(f->fs->inodes, f->inode, O_RDWR);
	int rc = fd < 0 ? fd : 0;
	if (rc >= 0)
		f->writable = true;
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/* The same descriptor, but somebody else wrote: a clean file is read anew, a changed one is ours. */
static int reopen(struct file *f, int fd)
{
	struct frame *old = f->frame;
	int rc = 0;

	pthread_rwlock_wrlock(&f->lock);
	if (!f->dirty.dirty && !f->dirty.flushing && !frame_dirty(old)) {
		rc = open_contiguous(f, fd);
		if (rc >= 0)
			frame_close(old);
		else
			f->frame = old; /* the handles that have it read what is still there */
	}
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

static int reload_if_changed(struct file *f)
{
	struct inode *n = f->inode;
	struct stat st;

	/* The gate is taken by who commits: then the change is our own. */
	if (inode_kind(n) != NODE_FRAME || pthread_rwlock_trywrlock(&f->gate) != 0)
		return 0;
	int fd = io_file_fd(frame_io(f->frame));
	int rc = stat_fd(fd, &st);
	if (rc >= 0 && !same_content(&st, &n->seen) && !file_changed(f)) {
		rc = reopen(f, fd);
		if (rc >= 0)
			revalidate(f->fs, n, fd);
	}
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

static int may_write(const struct file *f)
{
	if (inode_kind(f->inode) != NODE_FRAME || !frame_writable(f->frame))
		return -EROFS;
	return 0;
}

int file_get(struct fs *fs, struct inode *n, bool writable, struct file **out)
{
	int rc = 0;

	if (writable && inode_kind(n) != NODE_FRAME)
		return -EROFS;
	pthread_mutex_lock(&n->lock);
	if (!n->file) {
		struct file *f = file_new(fs, n);
		rc = f ? open_frame(f, writable) : -ENOMEM;
		if (rc >= 0)
			n->file = f;
		else if (f)
			close_frame(f);
	} else {
		rc = reload_if_changed(n->file);
	}
	if (rc >= 0 && writable) {
		rc = may_write(n->file);
		if (rc >= 0)
			rc = make_writable(n->file);
	}
	if (rc >= 0) {
		n->nopen++;
		*out = n->file;
	} else if (n->file && n->nopen == 0) {
		close_frame(n->file);
		n->file = NULL;
	}
	pthread_mutex_unlock(&n->lock);
	return rc;
}

/* What is made has no name yet: whoever sees it later sees a whole, empty frame. */
int file_init_frame(const struct fs *fs, int fd)
{
	struct pipeline p = fs->opt.pipeline;
	struct frame *frame;
	struct io *io;

	policy_note_item(&p);
	TRY(io_file_open(&io, fd, false));
	TRY(frame_create_take(&frame, io, &p, (uint32_t)fs->opt.chunksize));
	frame_close(frame);
	return 0;
}

int file_create_take(struct fs *fs, struct inode *n, int fd, struct file **out)
{
	pthread_mutex_lock(&n->lock);
	if (!n->file)
		inode_promote_to_take(fs->inodes, n, fd);
	else
		close(fd); /* somebody looked it up and opened it first */
	pthread_mutex_unlock(&n->lock);
	return file_get(fs, n, true, out);
}

static void drop_dirty(struct file *f)
{
	struct dirty_chunk *c, *next;

	pthread_rwlock_wrlock(&f->lock);
	HASH_ITER(hh, f->dirty.dirty, c, next)
		dirty_drop(f, c);
	f->lost = true;
	pthread_rwlock_unlock(&f->lock);
}

/* What a failing disk left in memory is given up, loudly. */
static void discard_dirty(struct file *f)
{
	char name[NAME_MAX + 1];

	if (file_changed(f)) {
		inode_name(f->fs->inodes, f->inode, name);
		log_err("%s: closed with unwritten data: it stays at its last commit", name);
	}
	drop_dirty(f);
}

static bool has_no_name(struct file *f)
{
	struct stat st;
	int fd = inode_pin(f->fs->inodes, f->inode);

	if (fd < 0)
		return false;
	bool gone = stat_fd(fd, &st) == 0 && st.st_nlink == 0;
	inode_unpin(f->fs->inodes, f->inode);
	return gone;
}

/* The last close: all goes to the frame, unless the file was deleted and nobody will read it. */
static void finish(struct file *f)
{
	IGNORE(flush_wait(f)); /* what failed is DIRTY, and tried again by the sync */
	if (has_no_name(f))
		drop_dirty(f);
	else if (file_sync(f, COMMIT_LATER) < 0)
		discard_dirty(f);
	budget_file_clean(f->fs->budget, f);
	budget_wait_unpinned(f->fs->budget, f);
	IGNORE(flush_wait(f)); /* a pinned file may have been flushed once more */
}

void file_put(struct fs *fs, struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	struct file *f = n->file;
	assert(f && n->nopen > 0);
	bool last = n->nopen == 1;
	if (!last)
		n->nopen--;
	pthread_mutex_unlock(&n->lock);
	if (!last)
		return;
	/* Not under n->lock, which the commit needs for the times. Meanwhile new users may come and go. */
	for (;;) {
		if (f->writable)
			finish(f);
		pthread_mutex_lock(&n->lock);
		if (n->nopen > 1 || budget_file_idle(fs->budget, f))
			break;
		pthread_mutex_unlock(&n->lock);
	}
	if (--n->nopen == 0) {
		n->file = NULL;
		close_frame(f);
	}
	pthread_mutex_unlock(&n->lock);
}

bool file_changed(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool changed = f->dirty.dirty || f->dirty.flushing || frame_dirty(f->frame);
	pthread_rwlock_unlock(&f->lock);
	return changed;
}

/* Larger files keep their chunks: re-encoding them would cost more than the slices are worth. */
#define BYTEWISE_MAX (16u << 20)

static bool must_become_bytewise(const struct file *f)
{
	uint64_t size = frame_size(f->frame);

	return f->items_whole && f->has_bytewise && size % f->pipeline.typesize && size <= BYTEWISE_MAX;
}

/* True: the chunk is stored with items of more than a byte. */
static bool is_typed(struct file *f, uint32_t n, struct workspace *ws)
{
	struct chunk c = {0};
	bool typed = frame_slot(f->frame, n) == SLOT_STORED &&
		     frame_load_chunk(f->frame, n, ws->scratch, &c) >= 0 && c.typesize > 1;
	chunk_deinit(&c);
	return typed;
}

/* The length is not whole items any more (policy.h): what was stored as items is stored anew. */
static int become_bytewise(struct file *f)
{
	struct workspace *ws = workspace_get();
	struct dirty_chunk *c;
	int rc = ws ? 0 : -ENOMEM;

	pthread_rwlock_wrlock(&f->lock);
	f->items_whole = false;
	for (uint32_t n = 0; rc >= 0 && n < frame_nchunks(f->frame); n++)
		if (is_typed(f, n, ws))
			rc = dirty_get_whole(f, n, &c);
	pthread_rwlock_unlock(&f->lock);
	return rc < 0 ? rc : flush_all(f);
}

static int commit(struct file *f, enum durability how)
{
	int fd = io_file_fd(frame_io(f->frame));

	pthread_rwlock_wrlock(&f->lock);
	bool changed = frame_dirty(f->frame);
	int rc = frame_commit(f->frame, how);
	pthread_rwlock_unlock(&f->lock);
	if (rc >= 0 && changed)
		times_committed(f->inode, fd);
	return rc;
}

int file_sync(struct file *f, enum durability how)
{
	if (!f->writable)
		return 0;
	if (how == COMMIT_LATER && !file_changed(f))
		return 0;
	pthread_rwlock_wrlock(&f->gate);
	int rc = f->lost ? -EIO : flush_all(f);
	if (rc >= 0 && must_become_bytewise(f))
		rc = become_bytewise(f);
	if (rc >= 0)
		rc = commit(f, how);
	if (rc >= 0)
		budget_file_clean(f->fs->budget, f);
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

uint64_t file_size(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	uint64_t size = f->npy ? f->npy->size : frame_size(f->frame);
	pthread_rwlock_unlock(&f->lock);
	return size;
}
