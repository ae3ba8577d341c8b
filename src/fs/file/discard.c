#include "fs/file/discard.h"

#include "fs/file/alone.h"
#include "fs/file/commit.h"
#include "fs/file/load.h"
#include "fs/file/loss.h"
#include "fs/file/write.h"
#include "fs/inode/caps.h"
#include "fs/inode/seen.h"
#include "fs/inode/times.h"
#include "fs/ops/notify.h"

static void drop_dirty(struct file *f)
{
	struct dirty_chunk *c;

	while ((c = dirty_set_from(&f->dirty.dirty, 0)))
		dirty_drop(f, c);
}

/*
 * As file_enter_alone; and the file cannot be opened or closed, since n->lock is held as well. That
 * comes before the file's lock, but is not held while waiting for chunks.
 */
static void enter_sealed(struct file *f)
{
	for (;;) {
		file_enter_alone(f);
		pthread_rwlock_unlock(&f->lock);
		pthread_mutex_lock(&f->inode->lock);
		pthread_rwlock_wrlock(&f->lock);
		if (!f->dirty.flushing.count)
			return;
		pthread_rwlock_unlock(&f->lock);
		pthread_mutex_unlock(&f->inode->lock);
		pthread_rwlock_unlock(&f->gate);
	}
}

static void leave_sealed(struct file *f)
{
	pthread_rwlock_unlock(&f->lock);
	pthread_mutex_unlock(&f->inode->lock);
	pthread_rwlock_unlock(&f->gate);
}

/*
 * Discards the changes: from here on the file is as of its last commit, and is watched for changes
 * by others again. Sealed.
 */
static void discard(struct file *f)
{
	struct inode *n = f->inode;
	struct stat st = {0};

	drop_dirty(f);
	if (frame_compare_root(f->frame) != ROOT_OTHER) /* workers may have stored something */
		(void)file_put_caps_back(f);
	IGNORE(stat_fd(f->fd, &st)); /* before reading it, so that a change in between is noticed */
	f->lost = file_load_again(f) < 0;
	uncommitted_remove(f);
	n->times.pending = false;
	n->cache_owner = f->cache_owner;
	seen_note(n, &st);
	n->kernel.mistaken = true;
	caps_forget(n);
}

void file_discard(struct file *f)
{
	enter_sealed(f);
	discard(f);
	leave_sealed(f);
}

/* The gate is held alone, and nothing is FLUSHING, as no application has changed anything. */
static void discard_gated(struct file *f)
{
	pthread_mutex_lock(&f->inode->lock);
	pthread_rwlock_wrlock(&f->lock);
	uint64_t old = frame_size(f->frame);
	discard(f);
	uint64_t size = frame_size(f->frame);
	notify_changed(f->fs->notify, f->inode, size > old ? size : 0);
	pthread_rwlock_unlock(&f->lock);
	pthread_mutex_unlock(&f->inode->lock);
}

void file_take_back_gated(struct file *f, bool theirs)
{
	if (!theirs)
		times_committed(f->inode, f->fd); /* our writes changed the mtime */
	times_release(f->inode, f->fd);
	discard_gated(f);
}

void file_take_back(struct file *f, bool theirs)
{
	file_enter_alone(f);
	bool changed = f->dirty.dirty.count || frame_dirty(f->frame);
	/* Only what an application has changed is on the list of files to commit. */
	bool ours = changed && uncommitted_is_idle(f);
	pthread_rwlock_unlock(&f->lock);
	if (ours)
		file_take_back_gated(f, theirs);
	else if (!changed)
		times_release(f->inode, f->fd);
	pthread_rwlock_unlock(&f->gate);
}

/* True: the caller, who is about to close the file, is its only user. Sealed. */
static bool is_last(const struct file *f)
{
	return f->inode->nopen == 1;
}

/* Cuts off what did not get into the frame, and would go on taking space on the disk. */
static void cut_end(struct file *f)
{
	caps_note(f->inode, f->fd);
	frame_cut_given_up(f->frame);
	(void)file_put_caps_back(f);
}

bool file_give_up_changes(struct file *f)
{
	enter_sealed(f);
	bool last = is_last(f);
	if (last) {
		bool named = file_has_a_name(f);
		f->inode->busy = INODE_ENDING;
		if (named)
			intent_keep_aside(f->fs->intent, &f->unsynced.mark);
		else
			intent_removed(f->fs->intent, &f->unsynced.mark);
		discard(f);
		if (!f->lost && !f->sidecar.there)
			cut_end(f);
		inode_give_up(f->fs->inodes, f->inode);
		if (named)
			file_log_err(f, "closed with unwritten data: it stays at its last commit");
	}
	leave_sealed(f);
	return last;
}

bool file_cut_refused(struct file *f)
{
	if (!file_has_refused(f))
		return false;
	enter_sealed(f);
	uint64_t end = ranges_first(&f->arrivals.refused), size = frame_size(f->frame);
	bool cut = is_last(f) && end != UINT64_MAX && !f->lost && !file_accept_long_refused(f) &&
		   file_resize_locked(f, min_u64(end, size)) == 0;
	if (cut) {
		arrivals_give_up(&f->arrivals);
		f->inode->busy = INODE_ENDING;
	}
	leave_sealed(f);
	return cut;
}

void file_tell_cut(struct file *f)
{
	enter_sealed(f);
	inode_give_up(f->fs->inodes, f->inode);
	file_log_err(f, "closed with unwritten data: it ends before that, at %llu",
		     (unsigned long long)frame_size(f->frame));
	leave_sealed(f);
}
