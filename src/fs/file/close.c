#include "fs/file/open.h"

#include "base/clock.h"
#include "fs/dirty/flush.h"
#include "fs/file/discard.h"
#include "fs/file/kept.h"
#include "fs/file/log.h"
#include "fs/file/sync.h"
#include "fs/inode/caps.h"

#include <assert.h>
#include <time.h>

void file_close(struct file *f)
{
	struct inode *n = f->inode;
	struct inodes *inodes = f->fs->inodes;

	readahead_stop(&f->readahead);
	file_free(f);
	if (inode_kind(n) != NODE_SPARSE && n->promoted)
		inode_demote(inodes, n);
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

/* At the last close: so often, and so long each time. */
#define WAITS 100
#define WAIT_NS (CLOCK_SECOND / 20)

/* Gives others time to free a descriptor. False: the mount is ending, and nobody will. */
static bool wait_for_descriptor(struct fs *fs)
{
	if (!relief_begin(&fs->relief))
		return false;
	nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	relief_end(&fs->relief);
	return true;
}

/*
 * A commit opens the lock file of other programs, if there is one by now. That fails while
 * applications have as many files open as there may be; but they often close many at a time.
 */
static int sync_at_last(struct file *f)
{
	int rc = file_sync(f, COMMIT_LATER);

	for (int i = 0; (rc == -EMFILE || rc == -ENFILE) && i < WAITS; i++) {
		if (!wait_for_descriptor(f->fs))
			break;
		rc = file_sync(f, COMMIT_LATER);
	}
	return rc;
}

/*
 * The last close. Everything is stored in the frame, even of a file without a name, since somebody
 * may open it again by an O_PATH descriptor. But its records in the intent log are not needed any
 * more: after a crash nobody could find the file. False: the file has to be kept open (kept.h).
 */
static bool finish(struct file *f)
{
	file_cut_refused(f);
	int rc = sync_at_last(f);
	if (kept_suits(f, rc))
		return false;
	if (rc >= 0 && file_in_log(f) && has_no_name(f))
		intent_removed(f->fs->intent, &f->unsynced.mark);
	if (rc < 0 || file_log_close(f) < 0)
		(void)file_give_up_changes(f);
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
	bool kept = n->nopen == 2 && kept_take_idle(f); /* the other use */
	bool last = n->nopen == 1;
	if (!last)
		n->nopen--;
	pthread_mutex_unlock(&n->lock);
	if (kept)
		inode_put(fs->inodes, n, 1);
	if (!last && !kept)
		return;
	/* Not under n->lock, which the commit needs for the times: users may come and go. */
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
	if (n->busy == INODE_ENDING)
		n->busy = INODE_NOT_BUSY;
	if (--n->nopen == 0) {
		n->last_size = file_size(f);
		n->last_block = frame_info(f->frame)->block_size;
		n->suspect = frame_suspect(f->frame);
		n->latest = frame_latest(f->frame);
		n->sized = !n->suspect && !file_changed(f);
		if (n->suspect) /* the kernel may forget the inode */
			fs->sync_failed = true;
		n->file = NULL;
		caps_forget(n);
		file_close(f);
	}
	pthread_mutex_unlock(&n->lock);
}
