#include "fs/file/open.h"

#include "base/clock.h"
#include "fs/dirty/flush.h"
#include "fs/file/discard.h"
#include "fs/file/intent_log.h"
#include "fs/file/kept.h"
#include "fs/file/sync.h"
#include "fs/inode/caps.h"
#include "fs/ops/notify.h"

#include <assert.h>

void file_close(struct file *f)
{
	struct inode *n = f->inode;
	struct inodes *inodes = f->fs->inodes;

	readahead_stop(&f->readahead);
	file_free(f);
	if (n->promoted)
		inode_demote(inodes, n);
}

/* A last close waits for a descriptor this many times, this long each time. */
#define WAITS 100
#define WAIT_NS (CLOCK_SECOND / 20)

/* False: others will not close theirs, since the mount is ending. */
static bool wait_for_descriptor(struct fs *fs)
{
	if (!relief_begin(&fs->relief))
		return false;
	clock_sleep(WAIT_NS);
	relief_end(&fs->relief, true);
	return true;
}

/*
 * A commit opens the lock file of other programs, if there is one by now. That fails while
 * applications have as many files open as the limit allows; but they often close many at a time.
 */
static int sync_at_last(struct file *f)
{
	int rc = file_sync(f, COMMIT_LATER);

	for (int waits = 0; (rc == -EMFILE || rc == -ENFILE) && waits < WAITS; waits++) {
		if (!wait_for_descriptor(f->fs))
			break;
		rc = file_sync(f, COMMIT_LATER);
	}
	return rc;
}

/*
 * For the last user: gets everything into the frame, even if the file has no name, since it may be
 * opened again by an O_PATH descriptor. False: the file has to be kept open (kept.h).
 *
 *   bytes are missing whose write was refused   the file is cut before them, and that is committed
 *   committed                                   a sync that the log needs is left to it, or made
 *   the disk is full, and the log has bytes     the file is kept
 *   failed otherwise                            what waits is given up (discard.h)
 *
 * Where the file is cut or given up, opens wait until it is closed (INODE_ENDING).
 */
static bool settle(struct file *f)
{
	bool cut = file_cut_refused(f);
	int rc = sync_at_last(f);

	if (kept_suits(f, rc) && !cut) /* one that was cut has to end: opens wait for that */
		return false;
	if (rc >= 0)
		rc = file_log_close(f);
	if (rc < 0)
		(void)file_give_up_changes(f);
	else if (cut)
		file_tell_cut(f);
	file_unlist(f);
	uncommitted_wait_unpinned(f);
	IGNORE(flush_wait(f)); /* the worker still has the file after its last chunk has landed */
	return true;
}

/* Closes the file for its only user, and notes in its inode what the next open needs. */
static void close_inode_locked(struct file *f)
{
	struct inode *n = f->inode;

	n->sizes.size = file_size(f);
	n->sizes.block = frame_info(f->frame)->block_size;
	n->suspect = frame_suspect(f->frame);
	n->latest = frame_latest(f->frame);
	n->sizes.known = !n->suspect && !file_changed(f);
	if (n->suspect) /* the kernel may forget the inode */
		f->fs->sync_failed = true;
	n->file = NULL;
	n->nopen = 0;
	n->busy = INODE_NOT_BUSY;
	caps_forget(n);
	if (inode_is_past(n)) /* the kernel may keep its size and pages for attr_timeout */
		notify_changed(f->fs->notify, n, 0);
	file_close(f);
}

/*
 * Ends the use of a user that was the only one before it settled the file, or could not. False:
 * the file was changed since, and has to be settled again.
 */
static bool end_use_inode_locked(struct file *f, bool settled)
{
	struct inode *n = f->inode;

	if (n->nopen > 1) { /* the last of those that came meanwhile does all this again */
		n->nopen--;
	} else if (!settled) {
		kept_add(f);
	} else if (uncommitted_is_idle(f)) {
		close_inode_locked(f);
	} else {
		return false;
	}
	return true;
}

/* The last commit is not made under n->lock, which it needs for the times. */
static void put_last(struct file *f)
{
	struct inode *n = f->inode;
	bool ended;

	do {
		bool settled = !f->writable || settle(f);
		pthread_mutex_lock(&n->lock);
		ended = end_use_inode_locked(f, settled);
		pthread_mutex_unlock(&n->lock);
	} while (!ended);
}

void file_put(struct fs *fs, struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	struct file *f = n->file;
	assert(f && n->nopen > 0);
	/* A kept file has one more user, the daemon. If it need not be kept, both uses end now. */
	bool kept = n->nopen == 2 && kept_take_idle(f);
	bool last = n->nopen == 1 || kept;
	if (n->nopen > 1)
		n->nopen--;
	pthread_mutex_unlock(&n->lock);
	if (kept)
		inode_put(fs->inodes, n, 1);
	if (last)
		put_last(f);
}
