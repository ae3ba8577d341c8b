/*
 * Syncing an open file: what waits in memory gets into the frame, and then to the disk by a commit
 * (commit.h) or the intent log (log.h).
 */
#include "fs/file/sync.h"

#include "base/log.h"
#include "fs/dirty/flush.h"
#include "fs/dirty/workspace.h"
#include "fs/file/commit.h"
#include "fs/file/log.h"
#include "fs/file/share.h"
#include "fs/file/write.h"
#include "fs/inode/caps.h"
#include "fs/inode/inode.h"
#include "fs/inode/times.h"
#include "fs/room.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* Larger files keep their chunks: re-encoding them would cost more than the slices are worth. */
#define BYTEWISE_MAX (16u << 20)

static bool must_become_bytewise(struct file *f)
{
	uint64_t size = frame_size(f->frame);

	return f->items_whole && size <= BYTEWISE_MAX &&
	       policy_wants_bytewise(&f->policy, size, frame_info(f->frame)->chunk_size);
}

/* 0: nothing is missing. */
static int why_refused(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = f->arrivals.refused.n ? f->arrivals.error : 0;
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

bool file_lacks_refused(struct file *f)
{
	return why_refused(f) < 0;
}

static unsigned count_dirty(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	unsigned n = f->dirty.dirty.count;
	pthread_rwlock_unlock(&f->lock);
	return n;
}

/* A flush on its way: chunks are sent in turns. */
struct turns {
	unsigned most;    /* chunks in the next turn                              */
	unsigned waiting; /* chunks that are DIRTY still                          */
	unsigned stuck;   /* as many were, when room was last made inside the file */
};

/*
 * After a turn in which so many chunks landed: how many the next one takes. On a full disk each
 * turn frees room for the next. Whole turns would be encoded again and again for the few chunks
 * that find room: time that grows with the square of the file.
 *
 * True: the disk was full, and another turn may find room. There may be some inside the file: it is
 * made for as long as that brings something forward.
 */
static bool plan_turn(struct file *f, struct turns *t, int rc, unsigned landed)
{
	bool full = rc == -ENOSPC || rc == -EDQUOT, all = t->most == FLUSH_ALL;

	if (full || !all)
		t->most = landed ? 2 * landed : 1;
	if (!full)
		return false;
	if (t->waiting < t->stuck && file_make_room(f) == 0) {
		t->stuck = t->waiting;
		return true;
	}
	if (t->waiting == t->stuck && !all) {
		t->most = FLUSH_ALL; /* these are too large for what is free, others may fit */
		return true;
	}
	return false;
}

/* Everything DIRTY lands in the frame, or the failure. The gate is held for writing. */
static int flush_all(struct file *f)
{
	struct turns t = {.most = FLUSH_ALL, .stuck = UINT_MAX};

	flush_small(f);
	IGNORE(flush_wait(f)); /* what failed before is DIRTY again and gets its next try now */
	t.waiting = count_dirty(f);
	for (;;) {
		unsigned before = t.waiting, sent = flush_submit_turn(f, t.most);
		int rc = flush_wait(f);
		t.waiting = count_dirty(f);
		unsigned landed = before > t.waiting ? before - t.waiting : 0;
		if (plan_turn(f, &t, rc, landed))
			continue;
		TRY(rc);
		if (!sent) {
			assert(!t.waiting); /* of what is DIRTY each turn sends something */
			return 0;
		}
		if (t.waiting && f->wants_commit)
			TRY(file_commit_gated(f, COMMIT_PART));
	}
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

/*
 * Chunk n is stored once more. Not behind its old self, if no root has that: it is given back
 * first. What a root has stays, also should the new one be lost.
 */
static int store_anew(struct file *f, uint32_t n)
{
	struct dirty_chunk *c;

	TRY(dirty_get_whole(f, n, &c));
	if (!frame_slot_is_new(f->frame, n))
		return 0;
	c->must = true; /* no root may say that it is a hole */
	frame_put_zeros(f->frame, n);
	return 0;
}

/*
 * The length is not whole items any more (policy.h): what was stored as items is stored anew, as
 * are the other chunks of this commit, which lie between those and would leave gaps.
 */
static int become_bytewise(struct file *f)
{
	struct workspace *ws = workspace_get();
	int rc = ws ? 0 : -ENOMEM;
	bool any = false;

	pthread_rwlock_wrlock(&f->lock);
	for (uint32_t n = 0; rc >= 0 && n < frame_nchunks(f->frame); n++)
		if (is_typed(f, n, ws)) {
			rc = store_anew(f, n);
			any = true;
		}
	for (uint32_t n = 0; any && rc >= 0 && n < frame_nchunks(f->frame); n++)
		if (frame_slot_is_new(f->frame, n))
			rc = store_anew(f, n);
	f->items_whole = rc < 0; /* the next commit goes on with the rest */
	pthread_rwlock_unlock(&f->lock);
	return rc < 0 ? rc : flush_all(f);
}

/* Of a file that is only read: what another program or an earlier close wrote gets durable. */
static int sync_read_only(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = f->fd < 0 ? 0 : io_sync(frame_io(f->frame));
	if (rc < 0)
		f->fs->sync_failed = true;
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/* What is in the log still waits for a durable commit; a file with large gaps, for the keeper. */
static void off_the_list(struct file *f)
{
	if (!intent_has(f->fs->intent, &f->unsynced.mark) && !file_wants_compact(f))
		budget_file_clean(f->fs->budget, f);
}

void file_settle(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	if (!intent_has(f->fs->intent, &f->unsynced.mark) && !file_changed(f))
		budget_file_clean(f->fs->budget, f);
	pthread_rwlock_unlock(&f->gate);
}

static int sync_gated(struct file *f, enum durability how)
{
	if (f->lost)
		return -EIO;
	/* Even a clean commit may touch the file: mtime is kept for all of them. */
	times_hold(f->inode, f->fd);
	int rc = flush_all(f);
	if (rc == -EIO) /* what lies under one chunk cannot be read: the others need not wait */
		IGNORE(file_commit_gated(f, COMMIT_PART));
	TRY(rc);
	if (file_lacks_refused(f))
		return file_commit_gated(f, COMMIT_PART);
	if (must_become_bytewise(f))
		TRY(become_bytewise(f));
	TRY(file_commit_gated(f, how));
	if (how == COMMIT_SYNC)
		file_log_committed(f);
	off_the_list(f);
	return 0;
}

int file_compact(struct file *f)
{
	int rc = 0;

	pthread_rwlock_wrlock(&f->gate);
	bool wants = f->writable && !f->inode->detached && !f->lost && file_wants_compact(f);
	/* What is DIRTY goes first: compacting commits without it, which only larger files bear. */
	if (wants && file_size(f) <= FLUSH_WHOLE && file_changed(f))
		rc = sync_gated(f, COMMIT_LATER);
	if (wants && rc >= 0)
		rc = file_compact_gated(f);
	/* gaps were punched behind the last commit, and no other may come */
	if (wants && !file_changed(f)) {
		IGNORE(file_put_caps_back(f, COMMIT_LATER));
		if (rc == -ESTALE) /* what has changed is not ours */
			times_release(f->inode, f->fd);
		else
			times_committed(f->inode, f->fd);
	}
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

static int sync_once(struct file *f, enum durability how)
{
	if (!f->writable)
		return how == COMMIT_SYNC ? sync_read_only(f) : 0;
	pthread_rwlock_wrlock(&f->gate);
	int rc = 0;
	if (how == COMMIT_SYNC || file_changed(f)) {
		rc = sync_gated(f, how);
	} else {
		IGNORE(flush_wait(f)); /* a chunk that was lost is not told of yet */
		if (!file_changed(f)) {
			IGNORE(file_put_caps_back(f, COMMIT_LATER)); /* of a chunk that was lost */
			times_release(f->inode, f->fd);
		}
		off_the_list(f);
	}
	if (rc >= 0)
		rc = why_refused(f);
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/*
 * Room is waited for here, and not by the worker that found none: the close of the removed file,
 * which frees it, may need that worker. A removed file is not to wait for its own.
 */
int file_try_sync(struct file *f, enum durability how)
{
	struct room_wait wait = {0};
	int rc;

	do
		rc = sync_once(f, how);
	while (!f->inode->nameless && !file_lacks_refused(f) && room_soon(f->fs, &wait, rc));
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

/* The kernel shows the length that it has with them: a hole at the end, too. */
static bool forget_refused(struct file *f)
{
	uint64_t end = min_u64(missing_end(&f->arrivals.refused), frame_max_size(f->frame));

	touched_whole(&f->unsynced.touched);
	if (end > frame_size(f->frame) && file_resize_locked(f, end) < 0)
		return false;
	arrivals_give_up(&f->arrivals);
	return true;
}

bool file_accept_long_refused(struct file *f)
{
	uint64_t first = missing_first(&f->arrivals.refused);
	char name[NAME_MAX + 1];

	if (!arrivals_are_over(&f->arrivals) || !forget_refused(f))
		return false;
	inode_name(f->fs->inodes, f->inode, name);
	log_err("%s: has zeros for unwritten data, from %llu on", name, (unsigned long long)first);
	file_lose(f, f->arrivals.error);
	return true;
}

void file_accept_refused(struct file *f, _Atomic uint32_t *told)
{
	pthread_rwlock_rdlock(&f->gate);
	pthread_rwlock_wrlock(&f->lock);
	if (f->arrivals.refused.n && *told == f->arrivals.refusals)
		(void)forget_refused(f); /* or the fsync fails once more */
	*told = f->arrivals.refusals;
	pthread_rwlock_unlock(&f->lock);
	pthread_rwlock_unlock(&f->gate);
}

void file_lose(struct file *f, int rc)
{
	pthread_mutex_lock(&f->flight.lock);
	f->flight.losses++;
	f->flight.loss_rc = rc;
	pthread_mutex_unlock(&f->flight.lock);
}

int file_take_loss(struct file *f, _Atomic uint32_t *seen)
{
	pthread_mutex_lock(&f->flight.lock);
	int rc = *seen == f->flight.losses ? 0 : f->flight.loss_rc;
	*seen = f->flight.losses;
	pthread_mutex_unlock(&f->flight.lock);
	return rc;
}

uint32_t file_losses(struct file *f)
{
	pthread_mutex_lock(&f->flight.lock);
	uint32_t n = f->flight.losses;
	pthread_mutex_unlock(&f->flight.lock);
	return n;
}

static int sync_data(struct file *f)
{
	/* the log knows nothing of either */
	bool logged = !caps_noted(f->inode) && !file_lacks_refused(f) && file_log(f);
	return logged ? 0 : file_sync(f, COMMIT_SYNC);
}

static bool attributes_wait(const struct file *f)
{
	return f->inode->attr_changes != f->inode->attr_synced;
}

/* Not beside a commit, whose own sync would not be told of the pages that this one finds lost. */
static int sync_attributes(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	int rc = attributes_wait(f) ? file_sync_inode(f) : 0;
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/* What was there when the kernel asked, and had sent all that it had of it. */
static void promise(struct file *f, uint64_t size)
{
	pthread_rwlock_wrlock(&f->lock);
	arrivals_promise(&f->arrivals, size);
	pthread_rwlock_unlock(&f->lock);
}

int file_fsync(struct file *f, bool data_only)
{
	uint64_t size = file_size(f);

	TRY(sync_data(f));
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

bool file_in_log(struct file *f)
{
	return intent_has(f->fs->intent, &f->unsynced.mark);
}
