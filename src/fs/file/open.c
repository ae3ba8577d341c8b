#include "fs/file/open.h"

#include "base/clock.h"
#include "fs/file/load.h"
#include "fs/file/share.h"
#include "fs/lease.h"

#include <unistd.h>

/*
 * Opens the file of an inode that has none open. Under n->lock, like all down to get_inode_locked.
 */
static int open_file(struct fs *fs, struct inode *n, const struct opening *o)
{
	struct file *f = file_new(fs, n);

	if (!f)
		return -ENOMEM;
	int rc = file_load(f, o);
	if (rc < 0)
		file_close(f);
	else
		n->file = f;
	return rc;
}

/* For a file that is already open: notices what another program may have changed. */
static int look_again(struct file *f, const struct opening *o)
{
	TRY(file_look_sidecar(f));
	int rc = file_reload_inode_locked(f);
	return rc == -EBUSY || (rc == -EAGAIN && o->unlocked) ? 0 : rc;
}

/* 0: the file may get one more user. */
static int admit(struct file *f, const struct opening *o)
{
	const struct inode *n = f->inode;

	if ((n->detached && o->writable) || (inode_is_past(n) && !o->as_is))
		return -ESTALE; /* the kernel looks the name up again, and finds the new inode */
	if (!o->writable)
		return 0;
	if (inode_kind(n) != NODE_FRAME || !frame_writable(f->frame))
		return -EROFS;
	if (sidecar_is_read_only(&f->sidecar))
		return -EACCES; /* now, rather than at the close of what was written */
	return file_make_writable(f);
}

/* -EAGAIN: another program has the lock, or another thread the gate. */
static int get_inode_locked(struct fs *fs, struct inode *n, const struct opening *o,
			    struct file **out)
{
	int rc = n->file ? look_again(n->file, o) : open_file(fs, n, o);

	if (rc >= 0)
		rc = admit(n->file, o);
	if (rc >= 0) {
		n->nopen++;
		*out = n->file;
	} else if (n->file && n->nopen == 0) {
		file_close(n->file);
		n->file = NULL;
	}
	return rc;
}

/* The longest pause between two looks, as the wait may take half a minute. */
#define NAP_MAX_NS (5 * CLOCK_MS)

/*
 * Takes n->lock for an open, which has to wait while n->busy is set. While the last user cuts the
 * file before what was refused, or takes it back to its last commit (INODE_ENDING), the kernel has
 * the old size, and would show and keep zeros up to there. An open of the file then waits until the
 * inode is given up, and gets ESTALE.
 */
static void lock_to_open(struct fs *fs, struct inode *n)
{
	uint64_t nap = CLOCK_NAP;
	bool relieved = false;

	pthread_mutex_lock(&n->lock);
	while (n->busy != INODE_NOT_BUSY) {
		pthread_mutex_unlock(&n->lock);
		relieved = relieved || relief_begin(&fs->relief); /* that user may wait, too */
		clock_nap(&nap, NAP_MAX_NS);
		pthread_mutex_lock(&n->lock);
	}
	relief_end(&fs->relief, relieved);
}

/* For a file that is not open: waits, using a temporary sidecar. *busy: what that has learned. */
static bool wait_closed(struct fs *fs, struct inode *n, struct sidecar_busy *busy)
{
	struct sidecar s;
	struct named by;

	if (inode_enter_name(fs->inodes, n, &by) < 0)
		return false;
	sidecar_init(&s, &fs->relief, fs->inodes, &n->told.lock);
	int rc = sidecar_look(&s, by.dirfd, by.name);
	inode_leave_name(fs->inodes, &by);
	bool comes = rc >= 0 && sidecar_wait(&s, SIDECAR_READ);
	*busy = s.busy_shared;
	sidecar_deinit(&s);
	return comes;
}

/*
 * Waits for the lock of another program and for the gate, not under n->lock: requests for the
 * file's attributes need that meanwhile, and so may whoever has the gate. False: the lock did not
 * become free in time; *busy says since when, if the file is not open.
 */
static bool wait_for_lock(struct fs *fs, struct inode *n, struct sidecar_busy *busy)
{
	pthread_mutex_lock(&n->lock);
	struct file *f = n->busy == INODE_ENDING ? NULL : n->file;
	n->nopen += f != NULL;
	pthread_mutex_unlock(&n->lock);
	if (!f)
		return wait_closed(fs, n, busy);
	bool comes = sidecar_wait(&f->sidecar, SIDECAR_READ);
	file_reload_in_turn(f); /* if it is the gate that was not free */
	file_put(fs, n);
	return comes;
}

/* Waits for another program that holds a lease on the frame; not under n->lock either. */
static void wait_for_lease(struct fs *fs, struct inode *n, int flags)
{
	int fd = inode_pin(fs->inodes, n);

	if (fd < 0)
		return;
	int got = lease_reopen(fs, fd, flags);
	if (got >= 0)
		close(got);
	inode_unpin(fs->inodes, n);
}

/* A limit, in case another program takes the lock, or a lease, again after each wait. */
#define OPEN_WAITS 64

static int get(struct fs *fs, struct inode *n, struct opening o, struct file **out)
{
	if (o.writable && inode_kind(n) != NODE_FRAME)
		return -EROFS;
	for (unsigned waits = 0;; waits++) {
		lock_to_open(fs, n);
		int rc = get_inode_locked(fs, n, &o, out);
		pthread_mutex_unlock(&n->lock);
		if (rc != -EAGAIN || o.unlocked)
			return rc;
		wait_for_lease(fs, n, o.writable ? O_RDWR : O_RDONLY);
		o.unlocked = waits == OPEN_WAITS || !wait_for_lock(fs, n, &o.busy);
	}
}

int file_get(struct fs *fs, struct inode *n, int flags, struct file **out)
{
	return get(fs, n, (struct opening){.writable = flags != O_RDONLY}, out);
}

int file_get_as_is(struct fs *fs, struct inode *n, struct file **out)
{
	return get(fs, n, (struct opening){.as_is = true}, out);
}

/* The file has no name yet: whoever sees it later sees a whole, empty frame. */
int newborn_init_frame(struct newborn *b, const struct settings *s, mode_t mode)
{
	struct pipeline p = policy_for_header(s);
	struct frame *frame;
	struct io *io;

	TRY(io_file_open(&io, b->fd));
	TRY(frame_create_take(&frame, io, &p, (uint32_t)s->chunksize));
	if (mode && fchmod(b->fd, mode) < 0) {
		int rc = -errno;
		frame_close(frame);
		return rc;
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
	 * A request that has looked it up meanwhile may have opened it, or written to it, or given
	 * it another descriptor.
	 */
	bool fresh = !n->file && !n->cache_owner;
	if (!n->file) {
		fresh &= inode_promote_to_take(fs->inodes, n, b->fd) == b->fd;
		b->fd = -1;
	}
	struct opening o = {.writable = true, .unlocked = true, .born = fresh ? b : NULL};
	int rc = get_inode_locked(fs, n, &o, out);
	newborn_drop(b);
	pthread_mutex_unlock(&n->lock);
	return rc;
}
