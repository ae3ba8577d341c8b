/* Handles: opening and closing a file, for one application. For directories see dir.c. */
#include "fs/ops/ops.h"

#include "fs/file/alone.h"
#include "fs/file/kept.h"
#include "fs/file/loss.h"
#include "fs/file/open.h"
#include "fs/file/write.h"
#include "fs/lease.h"
#include "fs/ops/preload.h"
#include "fs/ops/push.h"

#include <unistd.h>

static bool is_to_write(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY;
}

struct handle *ops_new_handle(struct fs *fs, struct inode *n, struct fuse_file_info *fi)
{
	struct handle *h = mem_zalloc(sizeof *h);
	if (!h)
		return NULL;
	h->inode = n;
	h->fd = -1;
	h->writable = is_to_write(fi->flags);
	h->synchronous = fs->opt.synchronous || fi->flags & O_DSYNC; /* a bit of O_SYNC, too */
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

/*
 * True: we may not read the file. Then the kernel must not cache it: for each page that is written
 * in part, it would read the rest.
 */
static bool may_only_write(int fd)
{
	return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY;
}

/*
 * For writes that bypass its cache the kernel sends no new times, and goes on to show its own: then
 * the change counts as another program's, so that the next lookup gets another inode
 * (detach_if_changed).
 */
static void end_plain_writer(struct handle *h)
{
	ops_plain_end(h->inode, may_only_write(h->fd) ? -1 : h->fd);
}

void ops_close_handle(struct fs *fs, struct handle *h)
{
	struct inode *n = h->inode;

	pthread_mutex_lock(&n->lock);
	*h->link = h->next;
	if (h->next)
		h->next->link = h->link;
	n->nwriters -= h->writable && h->file;
	pthread_mutex_unlock(&n->lock);
	if (h->writable && h->fd >= 0)
		end_plain_writer(h);
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

void ops_close_all(struct fs *fs)
{
	struct inode *next, *n = inodes_all_open(fs->inodes);

	for (; n; n = next) {
		next = n->next_open;
		inode_get(fs->inodes, n); /* its handles may be all that is left of it */
		while (n->handles)
			ops_close_handle(fs, n->handles);
		kept_end(fs, n);
		inode_put(fs->inodes, n, 1);
	}
}

/*
 * The flags for opening a plain file for an application. With the writeback cache the kernel reads
 * the rest of a page that is written in part, so a write-only handle must be able to read; and it
 * handles O_APPEND itself. O_DIRECT is between the application and us, and may be unaligned.
 */
static int plain_flags(int flags)
{
	flags &= ~(O_APPEND | O_DIRECT | O_CREAT | O_EXCL | O_NOCTTY | O_NOFOLLOW);
	if ((flags & O_ACCMODE) == O_WRONLY)
		flags = (flags & ~O_ACCMODE) | O_RDWR;
	return flags;
}

static int open_file(struct fs *fs, struct inode *n, int flags)
{
	bool writable = is_to_write(flags);
	bool cut = writable && flags & O_TRUNC;
	int fd = inode_pin(fs->inodes, n);
	int rc = 0;

	TRY(fd);
	if (cut)
		flags &= ~O_TRUNC; /* later, when it is certainly the right file */
	int got = lease_reopen(fs, fd, plain_flags(flags));
	if (got == -EACCES && (flags & O_ACCMODE) == O_WRONLY) /* we may not read it either */
		got = lease_reopen(fs, fd, flags & ~(O_APPEND | O_DIRECT | O_NOFOLLOW));
	inode_unpin(fs->inodes, n);
	TRY(got);
	if (writable)
		rc = inode_renumber(fs->inodes, n, got);
	if (rc >= 0 && cut && ftruncate(got, 0) < 0)
		rc = -errno;
	if (rc < 0) {
		close(got);
		return rc;
	}
	inodes_others_add(fs->inodes, 1);
	return got;
}

/* A writer is counted until ops_close_handle. */
static int open_plain(struct fs *fs, struct inode *n, int flags)
{
	bool writable = is_to_write(flags);

	if (!writable && !(flags & O_TRUNC))
		return open_file(fs, n, flags);
	ops_plain_begin(n);
	int fd = open_file(fs, n, flags);
	if (fd < 0 || !writable)
		ops_plain_end(n, fd);
	return fd;
}

/*
 * Counts a writer, until ops_close_handle, and says whether the kernel may keep its pages from the
 * last open: they are valid unless another program has changed the file. If it is opened for the
 * first time, for reading, there are none, and a small file is put there (preload.h).
 */
static void note_opened(struct fs *fs, struct handle *h, struct fuse_file_info *fi)
{
	bool small = !h->writable && !(fi->flags & O_DIRECT) && preload_suits(h->file);
	struct inode *n = h->inode;

	pthread_mutex_lock(&n->lock);
	/*
	 * Before the first open there are no pages to drop. When the kernel got to dropping them,
	 * there might be some that another opener is waiting for, and it would wait for these
	 * itself.
	 */
	fi->keep_cache = !n->kernel.owner || n->kernel.owner == n->cache_owner;
	bool preload = small && !n->kernel.owner && n->nopen == 1;
	if (preload)
		n->busy = INODE_PRELOADING;
	n->kernel.owner = n->cache_owner;
	n->nwriters += h->writable;
	h->opened = true;
	pthread_mutex_unlock(&n->lock);
	if (preload)
		fi->keep_cache = preload_run(fs, n, h->file);
}

/*
 * True: the kernel's size of the file is from before another program changed it. What is read would
 * be cut off, or padded with zeros, and an append would overwrite what that program has appended.
 * Not if others have it open: they would not see what this opener writes, nor the reverse. Those
 * that are only about to open it are refused as well.
 */
static bool has_old_size(struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	bool outdated = n->kernel.mistaken;
	for (const struct handle *h = n->handles; h; h = h->next)
		outdated &= !h->opened;
	pthread_mutex_unlock(&n->lock);
	return outdated;
}

static int get_file(struct fs *fs, struct handle *h, struct fuse_file_info *fi, enum opener by)
{
	if (h->writable || fi->flags & O_TRUNC)
		return file_get(fs, h->inode, O_RDWR, &h->file);
	return by == OPENER_AGAIN ? file_get_as_is(fs, h->inode, &h->file)
				  : file_get(fs, h->inode, O_RDONLY, &h->file);
}

static int open_frame(struct fs *fs, struct handle *h, struct newborn *born,
		      struct fuse_file_info *fi, enum opener by)
{
	struct inode *n = h->inode;

	if (!born && inode_was_replaced(fs->inodes, n))
		return -ESTALE; /* the kernel looks the name up, and asks again */
	int rc = born ? file_create_take(fs, n, born, &h->file) : get_file(fs, h, fi, by);
	if (rc < 0)
		return rc;
	/* Check now: the kernel would accept writes, and find out later. */
	if (by == OPENER_FIRST && has_old_size(n))
		rc = -ESTALE;
	else if (fi->flags & O_TRUNC && !born)
		rc = file_truncate(h->file, 0);
	else if (h->writable)
		rc = file_check_writing(h->file);
	if (rc < 0) {
		pthread_mutex_lock(&n->lock);
		h->file = NULL;
		pthread_mutex_unlock(&n->lock);
		file_put(fs, n);
		return rc;
	}
	h->losses = file_losses(h->file);
	if (!h->writable)
		fs_warm_cache(fs);
	note_opened(fs, h, fi);
	return 0;
}

/* An open of a frame that is already open shares its descriptor. */
static int check_room(struct fs *fs, struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	bool shared = n->file != NULL;
	pthread_mutex_unlock(&n->lock);
	return shared ? 0 : inodes_room_for_file(fs->inodes);
}

/*
 * As has_old_size, for a plain file: it is not as long as when the last writer closed it, or else
 * when it was looked up. Its readers go on with the old inode; while there are writers, it stays.
 */
static bool plain_has_old_size(struct fs *fs, struct inode *n)
{
	struct stat st;
	int fd = inode_pin(fs->inodes, n);

	if (fd < 0)
		return false;
	pthread_mutex_lock(&n->lock);
	bool outdated = n->nwriters == 0 && seen_any(n) && stat_fd(fd, &st) == 0 &&
			n->seen.st.st_size != st.st_size;
	pthread_mutex_unlock(&n->lock);
	inode_unpin(fs->inodes, n);
	return outdated;
}

static int open_content(struct fs *fs, struct handle *h, struct newborn *born,
			struct fuse_file_info *fi, enum opener by)
{
	if (!born)
		TRY(check_room(fs, h->inode));
	if (inode_is_frame(h->inode))
		return open_frame(fs, h, born, fi, by);
	if (by == OPENER_FIRST && !(fi->flags & O_TRUNC) && plain_has_old_size(fs, h->inode))
		return -ESTALE;
	h->fd = open_plain(fs, h->inode, fi->flags);
	TRY(h->fd);
	fi->direct_io = h->writable && may_only_write(h->fd);
	return 0;
}

int ops_open_handle(struct fs *fs, struct inode *n, struct newborn *born, struct fuse_file_info *fi,
		    enum opener by)
{
	struct handle *h = ops_new_handle(fs, n, fi);
	if (!h) {
		if (born)
			newborn_drop(born);
		return -ENOMEM;
	}
	err_clear();
	int rc = open_content(fs, h, born, fi, by);
	if (rc < 0) {
		if (ops_is_damage(rc))
			ops_log(fs, n, "open", rc);
		ops_close_handle(fs, h);
		return -ops_errno(rc);
	}
	return 0;
}

static void open_entered(struct deferred *d)
{
	struct fs *fs = ops_fs(d->req);
	struct inode *n = ops_inode(fs, d->ino);

	pid_t thread = fuse_req_ctx(d->req)->pid;
	int rc = ops_open_handle(fs, n, NULL, &d->fi, refused_know(&fs->refused, thread));
	if (rc == -ESTALE)
		refused_note(&fs->refused, thread);
	push_leave(n);
	if (rc >= 0 && d->fi.flags & O_TRUNC)
		ops_killpriv_truncated(d->req, n);
	ops_tell_limit(rc);
	if (rc < 0)
		fuse_reply_err(d->req, -rc);
	else if (fuse_reply_open(d->req, &d->fi) < 0) /* interrupted: no release will come */
		ops_close_handle(fs, ops_handle(&d->fi));
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req);
	struct deferred d = {.serve = open_entered, .req = req, .ino = ino, .fi = *fi};
	bool changes = is_to_write(fi->flags) || fi->flags & O_TRUNC;

	if (changes && fs->opt.read_only) { /* see is_refused in ops.c */
		fuse_reply_err(req, EROFS);
		return;
	}
	int rc = push_enter(fs, ops_inode(fs, ino), &d);
	if (rc == 0)
		open_entered(&d);
	else if (rc < 0)
		fuse_reply_err(req, -rc);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	ops_close_handle(ops_fs(req), ops_handle(fi));
	fuse_reply_err(req, 0);
}
