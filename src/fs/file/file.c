#include "fs/file/kept.h"
#include "fs/file/log.h"

#include "base/log.h"
#include "frame/view_npy.h"
#include "fs/dirty/flush.h"
#include "fs/file/discard.h"
#include "fs/file/share.h"
#include "fs/inode/caps.h"

#include <assert.h>
#include <unistd.h>

/* The options of the mount, overridden by the wishes for this file (wish.h). */
static struct settings settings_of(const struct file *f)
{
	return wish_apply(&f->fs->opt.settings, &f->wish);
}

/* By the name that it has in the mount, and by its attributes. */
static void load_wish(struct file *f)
{
	char name[NAME_MAX + 1];

	f->wish = (struct wish){0};
	if (inode_kind(f->inode) != NODE_FRAME)
		return;
	if (f->fs->opt.settings.rules) {
		inode_name(f->fs->inodes, f->inode, name);
		name[strlen(name) - strlen(names_suffix(name))] = 0;
		rules_match(f->fs->opt.settings.rules, name, &f->wish);
	}
	wish_load(&f->wish, f->fd);
}

void file_look_wish(struct file *f)
{
	load_wish(f);
	struct settings s = settings_of(f);
	policy_follow(&f->policy, &s, f->frame);
	if (frame_size(f->frame) == 0)
		file_adopt_pipeline(f);
}

/* An empty file, new or truncated, takes up what the mount says now. */
void file_adopt_pipeline(struct file *f)
{
	struct settings s = settings_of(f);
	struct pipeline p = policy_for_header(&s);

	if (s.chunksize != frame_info(f->frame)->chunk_size)
		frame_set_chunk_size(f->frame, (uint32_t)s.chunksize);
	f->chunk_size = frame_info(f->frame)->chunk_size;
	frame_set_pipeline(f->frame, &p);
	policy_follow(&f->policy, &s, f->frame);
	f->dirty.next = f->dirty.held = 0;
	f->items_whole = true;
}

static void file_free(struct file *f)
{
	if (!f)
		return;
	frame_close(f->frame);
	mem_free(f->npy);
	policy_deinit(&f->policy);
	touched_deinit(&f->unsynced.touched);
	arrivals_clear(&f->arrivals);
	readahead_deinit(&f->readahead);
	pthread_cond_destroy(&f->flight.landed);
	pthread_mutex_destroy(&f->flight.lock);
	pthread_mutex_destroy(&f->writing);
	pthread_rwlock_destroy(&f->lock);
	sidecar_deinit(&f->sidecar);
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
	policy_init(&f->policy);
	readahead_init(&f->readahead);
	/* The default lets a stream of readers keep writers out for ever. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&f->gate, &attr);
	sidecar_init(&f->sidecar, &fs->relief);
	pthread_rwlock_init(&f->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&f->flight.lock, NULL);
	pthread_mutex_init(&f->writing, NULL);
	pthread_cond_init(&f->flight.landed, NULL);
	return f;
}

static int open_sparse(struct file *f, int fd)
{
	int dirfd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd < 0 ? -errno : frame_open_sparse_take(&f->frame, dirfd);
}

/* Under n->lock, or with the file open. */
static void tell_torn(struct file *f)
{
	char name[NAME_MAX + 1];

	if (!frame_went_back(f->frame) || f->inode->told_torn)
		return;
	f->inode->told_torn = true;
	inode_name(f->fs->inodes, f->inode, name);
	log_warn("%s: torn by a crash: went back to its newest whole state, %llu bytes", name,
		 (unsigned long long)frame_size(f->frame));
}

/*
 * A file that was made just before the power went may have its name and no bytes. Its frame comes
 * with the first writer.
 */
static int open_unborn(struct file *f, struct io *io)
{
	struct settings s = settings_of(f);
	struct pipeline p = policy_for_header(&s);

	f->unborn = !f->writable;
	if (f->unborn) {
		io_close(io);
		TRY(io_mem_open(&io, view_of("", 0)));
	}
	return frame_create_take(&f->frame, io, &p, (uint32_t)s.chunksize);
}

static void follow_frame(struct file *f)
{
	if (f->writable)
		frame_know_root(f->frame);
	if (f->inode->suspect || f->fs->sync_failed)
		frame_set_suspect(f->frame);
	struct settings s = settings_of(f);
	policy_follow(&f->policy, &s, f->frame);
	f->chunk_size = frame_info(f->frame)->chunk_size;
	f->dirty.next = frame_nchunks(f->frame); /* the first that it may grow by */
	arrivals_clear(&f->arrivals);
	f->items_whole = true;
}

static int open_contiguous(struct file *f, int fd)
{
	uint64_t len;
	struct io *io;

	TRY(io_file_open(&io, fd, false));
	f->unborn = false;
	if (f->writable)
		load_wish(f);
	int rc = io_size(io, &len);
	if (rc >= 0 && len == 0 && inode_kind(f->inode) == NODE_FRAME)
		rc = open_unborn(f, io);
	else if (rc >= 0)
		rc = frame_open_take(&f->frame, io);
	else
		io_close(io);
	TRY(rc);
	follow_frame(f);
	return 0;
}

/*
 * The kernel was told the size of a root that opening has found to lack a chunk. It would pad what
 * is read with zeros up to there, and trusts its size whatever we answer: so this inode is given
 * up, and whoever looks the name up again gets one with the size that there is. Not while the log
 * is replayed: the kernel knows nothing yet, and nobody would ask again. Under n->lock.
 */
static bool gives_up_inode(struct file *f)
{
	struct inode *n = f->inode;
	struct probed is = {.kind = NODE_FRAME, .size = frame_size(f->frame),
			    .blocksize = frame_info(f->frame)->block_size};
	char name[NAME_MAX + 1];
	struct stat st;

	if (!f->fs->session || !frame_went_back(f->frame) || stat_fd(f->fd, &st) < 0)
		return false;
	inode_name(f->fs->inodes, n, name);
	if (!name[0] || !probe_correct(f->fs->probes, name, &st, &is))
		return false;
	n->mistaken = true;
	inode_detach(f->fs->inodes, n);
	return true;
}

static int open_npy(struct file *f)
{
	f->npy = mem_zalloc(sizeof *f->npy);
	return f->npy ? npy_init(f->npy, f->frame) : -ENOMEM;
}

/* That of a file just made is there already, and can do what its mode may forbid to another. */
static int open_descriptor(struct inode *n, struct inodes *inodes, bool writable)
{
	if (!n->promoted)
		return inode_promote(inodes, n, writable ? O_RDWR : O_RDONLY);
	int fd = inode_pin(inodes, n);
	if (fd >= 0)
		inode_unpin(inodes, n);
	return fd;
}

/* The frame was made here a moment ago, and its file is the inode's: nothing is read back. */
static void adopt_newborn_take(struct file *f, struct newborn *b)
{
	struct inode *n = f->inode;

	f->fd = n->fd;
	f->writable = true;
	f->frame = b->frame;
	f->wish = b->wish;
	b->frame = NULL;
	n->seen = b->st;
	f->cache_owner = n->cache_owner = cache_new_owner(f->fs->cache);
	follow_frame(f);
}

/* How a file is opened. */
struct opening {
	bool writable;
	bool unlocked;        /* another program has the lock for too long */
	struct sidecar_busy busy; /* if it was closed: since when */
	struct newborn *born; /* of a file just made, and the inode's already; or NULL */
};

static int open_frame(struct file *f, const struct opening *o)
{
	struct inodes *inodes = f->fs->inodes;
	enum node_kind kind = inode_kind(f->inode);

	f->fd = -1;
	if (kind == NODE_SPARSE) {
		int fd = inode_pin(inodes, f->inode);
		TRY(fd);
		/* Its chunks can change without the directory changing: nothing cached is kept. */
		f->cache_owner = f->inode->cache_owner = cache_new_owner(f->fs->cache);
		int rc = open_sparse(f, fd);
		inode_unpin(inodes, f->inode);
		return rc;
	}
	bool made = f->inode->promoted; /* just now: nobody shares it yet */
	f->fd = open_descriptor(f->inode, inodes, o->writable);
	TRY(f->fd);
	f->writable = o->writable;
	if (!made)
		file_look_sidecar(f);
	bool changed;
	if (o->unlocked)
		sidecar_know(&f->sidecar, &o->busy);
	/* the wait comes with nothing held: moments under n->lock would add up for many who open */
	int entered = o->unlocked ? sidecar_enter_soon(&f->sidecar, &changed)
				  : sidecar_try_store(&f->sidecar, &changed);
	if (entered < 0 && !o->unlocked)
		return entered;
	if (entered > SIDECAR_NONE && !o->unlocked)
		sidecar_seen(&f->sidecar, (enum sidecar_entered)entered);
	file_revalidate(f);
	int rc = open_contiguous(f, f->fd);
	if (rc >= 0 && kind == NODE_ARRAY)
		rc = open_npy(f);
	if (rc >= 0 && (kind == NODE_ARRAY || !gives_up_inode(f)))
		tell_torn(f);
	sidecar_leave(&f->sidecar, entered);
	return rc;
}

static void close_frame(struct file *f)
{
	struct inode *n = f->inode;
	struct inodes *inodes = f->fs->inodes;

	readahead_stop(&f->readahead);
	file_free(f);
	if (inode_kind(n) != NODE_SPARSE && n->promoted)
		inode_demote(inodes, n);
}

/* The same descriptor, other content: what the file holds now. The lock is held for writing. */
int file_reopen(struct file *f)
{
	struct frame *old = f->frame;

	f->inode->suspect = frame_suspect(old);
	TRY(open_contiguous(f, f->fd)); /* or the handles that have it read what is still there */
	tell_torn(f);
	frame_close(old);
	touched_whole(&f->unsynced.touched);
	f->cache_owner = cache_new_owner(f->fs->cache);
	return 0;
}

/* From reading to reading and writing, under the feet of the readers. */
static int make_writable(struct file *f)
{
	pthread_rwlock_wrlock(&f->lock);
	bool was = f->writable;
	int rc = was ? 0 : inode_promote(f->fs->inodes, f->inode, O_RDWR);
	if (rc >= 0 && !was) {
		load_wish(f);
		struct settings s = settings_of(f);
		policy_follow(&f->policy, &s, f->frame);
		frame_know_root(f->frame);
		f->writable = true;
	}
	if (rc >= 0 && f->unborn)
		rc = file_reopen(f);
	pthread_rwlock_unlock(&f->lock);
	return rc < 0 ? rc : 0;
}

/* Opens the file, of an inode that has none open. Under n->lock, as all down to get_locked. */
static int open_file(struct fs *fs, struct inode *n, const struct opening *o)
{
	struct file *f = file_new(fs, n);
	int rc = 0;

	if (!f)
		return -ENOMEM;
	if (o->born)
		adopt_newborn_take(f, o->born);
	else
		rc = open_frame(f, o);
	if (rc < 0)
		close_frame(f);
	else
		n->file = f;
	return rc;
}

/* A file that is open already: as another program may have left it. */
static int look_again(struct file *f, const struct opening *o)
{
	file_look_sidecar(f);
	int rc = file_reload_locked(f, false);
	return rc == -EAGAIN && o->unlocked ? 0 : rc;
}

/* Whether one more may use the file, to write if they like. */
static int admit(struct file *f, bool writable)
{
	const struct inode *n = f->inode;

	if (n->detached && (writable || (n->mistaken && n->nopen == 0)))
		return -ESTALE; /* the kernel looks the name up again, and finds the inode of now */
	if (!writable)
		return 0;
	if (inode_kind(n) != NODE_FRAME || !frame_writable(f->frame))
		return -EROFS;
	return make_writable(f);
}

/* -EAGAIN: another program has the lock. */
static int get_locked(struct fs *fs, struct inode *n, const struct opening *o, struct file **out)
{
	int rc = n->file ? look_again(n->file, o) : open_file(fs, n, o);

	if (rc >= 0)
		rc = admit(n->file, o->writable);
	if (rc >= 0) {
		n->nopen++;
		*out = n->file;
	} else if (n->file && n->nopen == 0) {
		close_frame(n->file);
		n->file = NULL;
	}
	return rc;
}

#define NAP_US 1000

/*
 * n->lock, for an open. By a file that its last user ends before what was refused, or takes back to
 * its last commit, the kernel would go on with the size of before, and show and keep zeros up to
 * there: whoever comes meanwhile waits until the inode is given up, and is told ESTALE.
 */
static void lock_to_open(struct fs *fs, struct inode *n)
{
	bool relieved = false;

	pthread_mutex_lock(&n->lock);
	while (n->ending || n->preloading) {
		pthread_mutex_unlock(&n->lock);
		relieved = relieved || relief_begin(&fs->relief); /* that user may wait himself */
		usleep(NAP_US);
		pthread_mutex_lock(&n->lock);
	}
	if (relieved)
		relief_end(&fs->relief);
}

static bool wait_closed(struct fs *fs, struct inode *n, struct sidecar_busy *busy)
{
	struct sidecar s;
	struct named by;

	if (inode_enter_name(fs->inodes, n, &by) < 0)
		return false;
	sidecar_init(&s, &fs->relief);
	sidecar_look(&s, by.dirfd, by.name);
	inode_leave_name(fs->inodes, &by);
	bool comes = sidecar_wait(&s, SIDECAR_READ);
	*busy = s.busy_shared;
	sidecar_deinit(&s);
	return comes;
}

/* Not under n->lock, which is needed for the attributes. */
static bool wait_for_lock(struct fs *fs, struct inode *n, struct sidecar_busy *busy)
{
	pthread_mutex_lock(&n->lock);
	struct file *f = n->ending ? NULL : n->file;
	n->nopen += f != NULL;
	pthread_mutex_unlock(&n->lock);
	if (!f)
		return wait_closed(fs, n, busy);
	bool comes = sidecar_wait(&f->sidecar, SIDECAR_READ);
	file_put(fs, n);
	return comes;
}

/* Should the lock be free for a moment each time. */
#define OPEN_WAITS 64

int file_get(struct fs *fs, struct inode *n, bool writable, struct file **out)
{
	struct opening o = {.writable = writable};

	if (writable && inode_kind(n) != NODE_FRAME)
		return -EROFS;
	for (unsigned waits = 0;; waits++) {
		lock_to_open(fs, n);
		int rc = get_locked(fs, n, &o, out);
		pthread_mutex_unlock(&n->lock);
		if (rc != -EAGAIN || o.unlocked)
			return rc;
		o.unlocked = waits == OPEN_WAITS || !wait_for_lock(fs, n, &o.busy);
	}
}

/* What is made has no name yet: whoever sees it later sees a whole, empty frame. */
int newborn_init_frame(struct newborn *b, const struct settings *s, mode_t mode)
{
	struct pipeline p = policy_for_header(s);
	struct frame *frame;
	struct io *io;

	TRY(io_file_open(&io, b->fd, false));
	TRY(frame_create_take(&frame, io, &p, (uint32_t)s->chunksize));
	if (mode && fchmod(b->fd, mode) < 0) {
		frame_close(frame);
		return -errno;
	}
	b->frame = frame;
	return 0;
}

void newborn_drop(struct newborn *b)
{
	frame_close(b->frame);
	b->frame = NULL;
	if (b->fd >= 0)
		close(b->fd);
	b->fd = -1;
}

int file_create_take(struct fs *fs, struct inode *n, struct newborn *b, struct file **out)
{
	lock_to_open(fs, n);
	/*
	 * Whoever looked it up first may have opened it, or
	 * written to it, or has given it another descriptor.
	 */
	bool fresh = !n->file && !n->cache_owner;
	if (!n->file) {
		fresh &= inode_promote_to_take(fs->inodes, n, b->fd) == b->fd;
		b->fd = -1;
	}
	struct opening o = {.writable = true, .unlocked = true, .born = fresh ? b : NULL};
	int rc = get_locked(fs, n, &o, out);
	newborn_drop(b);
	pthread_mutex_unlock(&n->lock);
	return rc;
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

/*
 * The last close: all goes to the frame, even of a file without a name: whoever has an O_PATH
 * descriptor of it may open it again. But nobody will look for what the log has of that one after a
 * crash. False: it is to be kept open.
 */
static bool finish(struct file *f)
{
	file_cut_refused(f);
	int rc = file_sync(f, COMMIT_LATER);
	if (kept_suits(f, rc))
		return false;
	if (rc >= 0 && file_in_log(f) && has_no_name(f))
		intent_removed(f->fs->intent, &f->unsynced.mark);
	if (rc < 0 || file_log_close(f) < 0)
		file_give_up_changes(f);
	else
		file_tell_cut(f);
	file_settle(f);
	budget_wait_unpinned(f->fs->budget, f);
	IGNORE(flush_wait(f)); /* the worker still has the file after its last chunk has landed */
	return true;
}

void file_put(struct fs *fs, struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	struct file *f = n->file;
	assert(f && n->nopen > 0);
	bool kept = n->nopen == 2 && kept_take(f); /* the other use, which is tried again now */
	bool last = n->nopen == 1;
	if (!last)
		n->nopen--;
	pthread_mutex_unlock(&n->lock);
	if (kept)
		inode_put(fs->inodes, n, 1);
	if (!last && !kept)
		return;
	/*
	 * Not under n->lock, which the commit needs for the
	 * times. Meanwhile new users may come and go.
	 */
	for (;;) {
		bool done = !f->writable || finish(f);
		pthread_mutex_lock(&n->lock);
		if (!done && n->nopen == 1) {
			kept_add(f);
			pthread_mutex_unlock(&n->lock);
			return;
		}
		if (n->nopen > 1 || budget_file_idle(fs->budget, f))
			break;
		pthread_mutex_unlock(&n->lock);
	}
	n->ending = false;
	if (--n->nopen == 0) {
		n->last_size = file_size(f);
		n->suspect = frame_suspect(f->frame);
		if (n->suspect) /* the kernel may forget the inode */
			fs->sync_failed = true;
		n->file = NULL;
		caps_forget(n);
		close_frame(f);
	}
	pthread_mutex_unlock(&n->lock);
}

bool file_changed_locked(const struct file *f)
{
	return f->dirty.dirty.count || f->dirty.flushing.count || frame_dirty(f->frame);
}

bool file_changed(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool changed = file_changed_locked(f);
	pthread_rwlock_unlock(&f->lock);
	return changed;
}

uint64_t file_size_locked(const struct file *f)
{
	return f->npy ? f->npy->size : frame_size(f->frame);
}

uint64_t file_size(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	uint64_t size = file_size_locked(f);
	pthread_rwlock_unlock(&f->lock);
	return size;
}
