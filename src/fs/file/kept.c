#include "fs/file/kept.h"

#include "fs/file/intent_log.h"
#include "fs/file/loss.h"
#include "fs/file/open.h"

bool kept_suits(struct file *f, int rc)
{
	return err_is_full(rc) && f->fs->keeper && !f->lost && file_in_log(f) && file_has_a_name(f);
}

void kept_add(struct file *f)
{
	inode_get(f->fs->inodes, f->inode);
	f->kept = true;
	if (f->told_kept) /* it was kept before, and a reader has closed it since */
		return;
	f->told_kept = true;
	file_log_err(f, "closed while the disk is full: what was synced waits in memory and in the "
			"intent log until there is room");
}

/* True: it was kept, and no longer is: its count and the reference are now the caller's. */
static bool take(struct file *f)
{
	bool was = f->kept;

	f->kept = false;
	return was;
}

bool kept_take_idle(struct file *f)
{
	bool waits = f->kept && (file_changed(f) || file_in_log(f)) && !file_has_refused(f);

	return !waits && take(f);
}

/* The same for the file that the inode has open, if any. */
static bool take_of(struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	bool was = n->file && take(n->file);
	pthread_mutex_unlock(&n->lock);
	return was;
}

static void drop(struct fs *fs, struct inode *n)
{
	file_put(fs, n);
	inode_put(fs->inodes, n, 1);
}

void kept_unpin(struct file *f, int rc)
{
	struct fs *fs = f->fs;
	struct inode *n = f->inode;
	bool waits = rc != 0 && rc != -ESTALE && file_has_a_name(f);
	bool taken = !waits && take_of(n);

	uncommitted_unpin(f);
	if (taken)
		drop(fs, n);
}

void kept_end(struct fs *fs, struct inode *n)
{
	if (take_of(n))
		drop(fs, n);
}
