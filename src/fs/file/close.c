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

/* At the last close: how many times to wait for a descriptor, and how long each time. */
#define WAITS 100
#define WAIT_NS (CLOCK_SECOND / 20)

/*
 * Call after a try that returned rc. True: try again; there was no free descriptor, and others have
 * had time to close theirs. Not when the mount is ending: then none will be closed.
 */
static bool descriptor_soon(struct fs *fs, unsigned *waits, int rc)
{
	if ((rc != -EMFILE && rc != -ENFILE) || (*waits)++ == WAITS || !relief_begin(&fs->relief))
		return false;
	clock_sleep(WAIT_NS);
	relief_end(&fs->relief);
	return true;
}

/*
 * A commit opens the lock file of other programs, if there is one by now. That fails while
 * applications have as many files open as the limit allows; but they often close many at a time.
 */
static int sync_at_last(struct file *f)
{
	unsigned waits = 0;
	int rc;

	do
		rc = file_sync(f, COMMIT_LATER);
	while (descriptor_soon(f->fs, &waits, rc));
	return rc;
}

/*
 * The last close. Everything is stored in the frame, even if the file has no name, since it may be
 * opened again by an O_PATH descriptor. But the records of such a file in the intent log are no
 * longer needed: after a crash nobody could find it. False: the file has to be kept open.
 *
 *   bytes are missing whose write was refused   the file is cut before them, and that is committed
 *   committed                                   a sync that the log needs is left to it, or made
 *   the disk is full, and the log has bytes     the file is kept (kept.h)
 *   failed otherwise                            what waits is given up (discard.h)
 *
 * Where the file is cut or given up, opens wait until it is closed (INODE_ENDING).
 */
static bool finish(struct file *f)
{
	file_cut_refused(f);
	int rc = sync_at_last(f);
	if (kept_suits(f, rc))
		return false;
	if (rc >= 0 && file_in_log(f) && !file_has_a_name(f))
		intent_removed(f->fs->intent, &f->unsynced.mark);
	if (rc < 0 || file_log_close(f) < 0)
		(void)file_give_up_changes(f);
	else
		file_tell_cut(f);
	file_unlist(f);
	uncommitted_wait_unpinned(f);
	IGNORE(flush_wait(f)); /* the worker still has the file after its last chunk has landed */
	return true;
}

/* Closes the file, which has no more users, and notes in its inode what the next open needs. */
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
	caps_forget(n);
	if (inode_is_past(n)) /* the kernel may keep its size and pages for attr_timeout */
		notify_changed(f->fs->notify, n, 0);
	file_close(f);
}

/*
 * Drops the use of the only user, or of the one that was the only one until others came meanwhile.
 * The last commit is not made under n->lock, which it needs for the times: users may come and go.
 */
static void put_last(struct file *f)
{
	struct inode *n = f->inode;

	for (;;) {
		bool done = !f->writable || finish(f);
		pthread_mutex_lock(&n->lock);
		if (!done && n->nopen == 1) {
			kept_add(f);
			pthread_mutex_unlock(&n->lock);
			return;
		}
		if (n->nopen > 1 || uncommitted_is_idle(f))
			break;
		pthread_mutex_unlock(&n->lock); /* it was changed since */
	}
	if (n->busy == INODE_ENDING)
		n->busy = INODE_NOT_BUSY;
	if (--n->nopen == 0)
		close_inode_locked(f);
	pthread_mutex_unlock(&n->lock);
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
