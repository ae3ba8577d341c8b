#include "fs/file/sync.h"

#include "fs/dirty/flush.h"
#include "fs/file/commit.h"
#include "fs/file/discard.h"
#include "fs/file/drain.h"
#include "fs/file/intent_log.h"
#include "fs/file/loss.h"
#include "fs/file/open.h"
#include "fs/file/refit.h"
#include "fs/file/share.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"
#include "fs/room.h"

#include <errno.h>

/*
 * From the outside in:
 *
 *   file_fsync, file_flush  for a handle; fsync uses the intent log instead, where that is cheaper
 *   file_sync               waits for another program's lock, and tries again
 *   file_try_sync           waits for the space of a removed file, and tries again
 *   sync_once               takes the gate; finds out whether there is anything to do
 *   sync_gated              what waits in memory goes to the frame, and the frame is committed
 */

/*
 * For a file that is only read: lets a commit note in it that its root is durable, or write the
 * header of a recovered one. For that the file is made writable, if possible.
 */
static void commit_root(struct file *f)
{
	struct file *same;

	if (f->fs->opt.read_only || file_get(f->fs, f->inode, O_RDWR, &same) < 0)
		return;
	IGNORE(file_try_sync(same, COMMIT_SYNC)); /* the bytes are synced without it */
	file_put(f->fs, f->inode);
}

static int sync_bytes(int fd)
{
	struct io *io;

	TRY(io_file_open(&io, fd));
	int rc = io_sync(io);
	io_close(io);
	return rc;
}

/*
 * For a file that is only read: makes durable what another program, or an earlier close, has
 * written. 1: it has been opened for writing since, so that it has to be committed.
 *
 * The file's lock is not held meanwhile: opens for writing, and reads, would wait for the disk. The
 * gate is, which keeps out commits, but not a reload (share.c): f->frame may be replaced.
 */
static int sync_read_only(struct file *f)
{
	pthread_rwlock_rdlock(&f->gate);
	pthread_rwlock_rdlock(&f->lock);
	bool late = f->writable, syncs = !late && f->fd >= 0 && !f->unborn;
	bool wants = !late && (file_wants_vouch(f) || file_wants_header(f));
	pthread_rwlock_unlock(&f->lock);
	int rc = syncs ? sync_bytes(f->fd) : 0;
	if (rc < 0) {
		f->fs->sync_failed = true; /* for opens for writing from now on */
		file_note_failed_sync(f);
	}
	pthread_rwlock_unlock(&f->gate);
	if (rc >= 0 && wants)
		commit_root(f);
	return late ? 1 : rc;
}

/*
 * The file is committed, so it leaves the list of files to commit. It stays there if the log has
 * bytes of it, which only a durable commit settles, or if it has large gaps for the keeper to
 * close.
 */
static void unlist_committed(struct file *f)
{
	if (!file_in_log(f) && !file_wants_compact(f))
		uncommitted_remove(f);
}

void file_unlist(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	if (!file_in_log(f) && !file_changed(f))
		uncommitted_remove(f);
	pthread_rwlock_unlock(&f->gate);
}

static int sync_gated(struct file *f, enum durability how)
{
	if (f->lost)
		return -EIO;
	if (file_is_left_behind(f))
		return -ESTALE;
	/* even a clean commit may touch the file: its mtime is kept in every case */
	times_hold(f->inode, f->fd);
	int rc = file_drain(f);
	if (rc == -EIO) /* one chunk's old bytes cannot be read: the others need not wait */
		IGNORE(file_commit_part_gated(f));
	TRY(rc);
	if (file_has_refused(f))
		return file_commit_part_gated(f);
	TRY(file_refit(f));
	TRY(file_commit_gated(f, how));
	if (how == COMMIT_SYNC)
		file_log_committed(f);
	unlist_committed(f);
	return 0;
}

/* True: what a compaction with that result has met is another program's change. */
static bool is_theirs(struct file *f, int rc)
{
	return rc == -ESTALE || file_is_overtaken(f);
}

/* Ends a compaction that has left no changes. */
static void settle_compact(struct file *f, int rc)
{
	/* Punching gaps, after the last commit, has changed the times once more. */
	(void)file_put_caps_back(f);
	if (is_theirs(f, rc))
		times_release(f->inode, f->fd);
	else
		times_committed(f->inode, f->fd);
}

/*
 * Nothing of an application waits. Another program that writes the file meanwhile, even without
 * locks, must not find chunks of ours among its own, nor our root in place of its own. What could
 * not be committed is given up: as long as it waits, the file is not read anew.
 */
static int compact_idle(struct file *f)
{
	bool wary = file_set_wary_gated(f, true); /* recompression may be at work on the file */
	int rc = file_compact_gated(f);
	(void)file_set_wary_gated(f, wary);
	if (!file_changed(f))
		settle_compact(f, rc);
	else if (rc < 0)
		file_take_back_gated(f, is_theirs(f, rc));
	return rc;
}

static int compact(struct file *f)
{
	int rc = 0;

	/* Compacting commits nothing that is DIRTY, but a small file is committed as a whole. */
	if (file_size(f) <= FLUSH_WHOLE && file_changed(f))
		rc = sync_gated(f, COMMIT_LATER);
	if (rc >= 0 && !file_changed(f) && !file_in_log(f))
		return compact_idle(f);
	if (rc >= 0)
		rc = file_compact_gated(f);
	if (!file_changed(f))
		settle_compact(f, rc);
	return rc;
}

int file_compact(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	bool wants = f->writable && !f->inode->detached && !f->lost && file_wants_compact(f);
	int rc = wants ? compact(f) : 0;
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/* For a file without changes: ends what has begun for some that did not stay. */
static void settle_clean(struct file *f)
{
	IGNORE(flush_wait(f)); /* after a loss the log may not have been kept yet */
	if (!file_changed(f)) {
		/* perhaps removed by the write of a chunk that did not stay */
		(void)file_put_caps_back(f);
		times_release(f->inode, f->fd);
	}
	unlist_committed(f);
}

static int sync_once(struct file *f, enum durability how)
{
	if (!f->writable) {
		int rc = how == COMMIT_SYNC ? sync_read_only(f) : 0;
		if (rc <= 0)
			return rc;
	}
	pthread_rwlock_wrlock(&f->gate);
	int rc = 0;
	if (how == COMMIT_SYNC || file_changed(f))
		rc = sync_gated(f, how);
	else
		settle_clean(f);
	if (rc >= 0)
		rc = file_refused(f);
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/*
 * On a full disk, a removed file that is being closed may be about to free space: then this waits
 * for it (room.h). It is done here and not in the worker that found no room, since the close may
 * need that worker.
 */
int file_try_sync(struct file *f, enum durability how)
{
	struct room_wait wait = {0};
	int rc;

	do
		rc = sync_once(f, how);
	while (!file_has_refused(f) && file_room_comes(f, rc, &wait));
	return rc;
}

int file_sync(struct file *f, enum durability how)
{
	struct lock_wait lock = {.what = SIDECAR_COMMIT};
	int rc;

	do
		rc = file_try_sync(f, how);
	while (file_lock_comes(f, rc, &lock));
	return rc;
}

int file_sync_data(struct file *f)
{
	/* A record of the log says nothing of capabilities, nor of bytes that are missing. */
	bool logged = !caps_noted(f->inode) && !file_has_refused(f) && file_sync_by_log(f);
	return logged ? 0 : file_sync(f, COMMIT_SYNC);
}

static bool attributes_wait(const struct file *f)
{
	return f->inode->attr_changes != f->inode->attr_synced;
}

/*
 * Keeps commits out. The kernel reports lost pages to one sync only: if that were this one, the
 * sync of a concurrent commit would succeed without them.
 */
static int sync_attributes(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	int rc = attributes_wait(f) ? file_sync_inode(f) : 0;
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/*
 * Call at the end of an fsync or a close, before which the kernel sends all pages it has: what is
 * still blank in the first `size` bytes, the file's length at the start of the call, was left out
 * by the application.
 */
static void promise(struct file *f, uint64_t size)
{
	pthread_rwlock_wrlock(&f->lock);
	arrivals_promise(&f->arrivals, size);
	pthread_rwlock_unlock(&f->lock);
}

int file_fsync(struct file *f, bool data_only)
{
	uint64_t size = file_size(f);

	TRY(file_sync_data(f));
	promise(f, size);
	return data_only || f->fd < 0 || !attributes_wait(f) ? 0 : sync_attributes(f);
}

int file_flush(struct file *f)
{
	uint64_t size = file_size(f);

	TRY(file_sync(f, COMMIT_LATER));
	promise(f, size);
	return 0;
}
