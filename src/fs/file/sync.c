#include "fs/file/log.h"

#include "fs/dirty/flush.h"
#include "fs/dirty/workspace.h"
#include "fs/file/share.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* Larger files keep their chunks: re-encoding them would cost more than the slices are worth. */
#define BYTEWISE_MAX (16u << 20)

/* Nobody else gets at the file for as long as it takes to move so much. */
#define COMPACT_STEP (4u << 20)

static bool must_become_bytewise(struct file *f)
{
	uint64_t size = frame_size(f->frame);

	return f->items_whole && size <= BYTEWISE_MAX &&
	       policy_wants_bytewise(&f->policy, size, frame_info(f->frame)->chunk_size);
}

/* The header names the pipeline of the first data, which was not known before that came. */
static void name_choice(struct file *f)
{
	struct pipeline p;

	if (policy_first_choice(&f->policy, &p))
		frame_set_pipeline(f->frame, &p);
}

/* More than a commit needs: attributes too. */
static int sync_inode(struct file *f)
{
	uint32_t changes = f->inode->attr_changes;
	int rc = fsync(f->fd) < 0 ? -errno : 0;

	if (rc == 0) {
		f->inode->attr_synced = changes;
		return 0;
	}
	pthread_rwlock_wrlock(&f->lock);
	if (f->writable)
		frame_set_suspect(f->frame); /* it may have told of other bytes */
	else
		f->fs->sync_failed = true;
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/* What the commit has written took them away. Its own sync came too early for them. */
static int put_caps_back(struct file *f, enum durability how)
{
	int rc = caps_put_back(f->inode, f->fd);
	if (how != COMMIT_PART) /* of a part, chunks may be landing */
		caps_forget(f->inode);
	return rc <= 0 || how != COMMIT_SYNC ? 0 : sync_inode(f);
}

/*
 * An fdatasync takes a new file's name along with the length that the file got after it, in the
 * journals that we know. An empty one has had its length before its name.
 */
static void name_synced(struct file *f)
{
	struct inode *n = f->inode;

	if (n->made && n->attr_synced == 0 && frame_size(f->frame) > 0)
		n->attr_synced = 1;
}

/* Right before the backing file is changed. The lock is held for writing. */
static void hold_caps(struct file *f)
{
	caps_hold(f->inode, f->fd);
	if (caps_noted(f->inode) && frame_knows_root(f->frame) == ROOT_OTHER)
		caps_forget(f->inode);
}

/*
 * The first chunk of what the file has grown by of which bytes are missing: they wait for their
 * place, or the kernel has not sent them. UINT32_MAX: there is none.
 */
static uint32_t first_missing(const struct file *f)
{
	uint64_t kept = frame_kept(f->frame), gap = missing_first(&f->arrivals.gaps);

	if (frame_size(f->frame) <= kept)
		return UINT32_MAX;
	uint32_t n = dirty_first_unshown(f, range_chunk(kept, f->chunk_size));
	return gap == UINT64_MAX ? n : (uint32_t)min_u64(n, range_chunk(gap, f->chunk_size));
}

/* True: a part cannot end before that chunk, since it begins with bytes that are kept. */
static bool missing_holds_up(const struct file *f)
{
	uint32_t n = first_missing(f);
	return n != UINT32_MAX && (uint64_t)n * f->chunk_size < frame_kept(f->frame) &&
	       frame_slot(f->frame, n) == SLOT_STORED;
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

/*
 * Of a part, what the file has grown by ends where the first chunk is missing, or bytes of it are.
 * Not so that nothing is left, when the log has something of it: that would count as older than an
 * empty file.
 */
static int commit_frame(struct file *f, enum durability how)
{
	if (how != COMMIT_PART)
		return frame_commit(f->frame, how);
	uint32_t missing = first_missing(f);
	if (frame_kept(f->frame) == 0 && missing == 0 && file_in_log(f))
		missing = UINT32_MAX;
	return frame_commit_part(f->frame, missing);
}

/* Of a part, chunks may be landing. */
static bool may_write(struct file *f, enum durability how)
{
	pthread_rwlock_rdlock(&f->lock);
	bool may = file_changed_locked(f) || frame_writes(f->frame, how);
	pthread_rwlock_unlock(&f->lock);
	return may;
}

static int commit(struct file *f, enum durability how)
{
	int entered = may_write(f, how) ? file_enter_commit(f) : NOT_SHARED;
	TRY(entered);
	pthread_rwlock_wrlock(&f->lock);
	bool held_up = how == COMMIT_PART && (dirty_holds_up(&f->dirty) || missing_holds_up(f));
	if (frame_dirty(f->frame) && !held_up)
		name_choice(f);
	hold_caps(f);
	bool writes = frame_writes(f->frame, how);
	int rc = held_up ? 0 : commit_frame(f, how);
	f->wants_commit = false;
	if (how != COMMIT_PART) /* also if it failed: what is kept may be all of it by now */
		arrivals_commit(&f->arrivals, frame_kept(f->frame));
	if (rc >= 0 && how == COMMIT_SYNC) {
		touched_clear(&f->unsynced.touched);
		if (writes)
			name_synced(f);
	}
	pthread_rwlock_unlock(&f->lock);
	file_leave_commit(f, (enum entered)entered);
	if (rc >= 0)
		rc = put_caps_back(f, how);
	if (rc >= 0 && writes)
		times_committed(f->inode, f->fd);
	else if (rc >= 0 && how != COMMIT_PART) /* what has changed the file meanwhile was not us */
		times_release(f->inode, f->fd);
	return rc;
}

/* More is to come: the application's times go on being those that are shown. */
static int commit_part(struct file *f)
{
	if (f->replaying)
		return 0;
	times_hold(f->inode, f->fd);
	TRY(commit(f, COMMIT_PART));
	times_hold(f->inode, f->fd);
	return 0;
}

/* What waits for the root on disk to be durable is free after this, and the disk gets it back. */
static int sync_root(struct file *f)
{
	int entered = file_enter_store(f);
	TRY(entered);
	pthread_rwlock_wrlock(&f->lock);
	hold_caps(f);
	int rc = frame_sync_root(f->frame);
	pthread_rwlock_unlock(&f->lock);
	file_leave_store(f, entered);
	return rc;
}

/* What waits for a durable root is free after this. */
static int free_waiting(struct file *f)
{
	TRY(commit_part(f));
	return sync_root(f);
}

/*
 * The same on a full disk, where the commit may need the very room that waits for the root before
 * it. No root may point at what a failed sync has lost: then it is left to the commit. One that
 * frees nothing is not made: it would only tell of zeros where chunks found no room.
 */
static int make_room(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool waits = frame_waits(f->frame), suspect = frame_suspect(f->frame);
	pthread_rwlock_unlock(&f->lock);
	int rc = suspect ? 0 : sync_root(f);
	return rc < 0 || !waits ? rc : free_waiting(f);
}

static unsigned count_dirty(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	unsigned n = f->dirty.dirty.count;
	pthread_rwlock_unlock(&f->lock);
	return n;
}

/*
 * On a full disk each turn frees room for the next. Whole turns would be encoded again and again
 * for the few chunks that find room: time that grows with the square of the file.
 */
static unsigned next_turn(unsigned landed)
{
	return landed ? 2 * landed : 1;
}

/* Everything DIRTY lands in the frame, or the failure. The gate is held for writing. */
static int flush_all(struct file *f)
{
	unsigned stuck = UINT_MAX, most = FLUSH_ALL;

	flush_small(f);
	IGNORE(flush_wait(f)); /* what failed before is DIRTY again and gets its next try now */
	unsigned before = count_dirty(f);
	for (;;) {
		unsigned left = flush_submit_turn(f, most);
		int rc = flush_wait(f);
		unsigned more = count_dirty(f), landed = before > more ? before - more : 0;
		bool full = rc == -ENOSPC || rc == -EDQUOT;
		bool all = most == FLUSH_ALL;
		before = more;
		if (full || !all)
			most = next_turn(landed);
		/*
		 * A full disk, but perhaps not inside the file; for as
		 * long as that brings something forward.
		 */
		if (full && more < stuck && make_room(f) == 0) {
			stuck = more;
			continue;
		}
		if (full && more == stuck && !all) {
			most = FLUSH_ALL; /* these are too large for what is free, others may fit */
			continue;
		}
		TRY(rc);
		if (!left) {
			assert(!more); /* of what is DIRTY each turn sends something */
			return 0;
		}
		if (more && f->wants_commit)
			TRY(commit_part(f));
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

static bool is_held_up(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool held_up = dirty_holds_up(&f->dirty);
	pthread_rwlock_unlock(&f->lock);
	return held_up;
}

static bool is_suspect(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool suspect = frame_suspect(f->frame);
	pthread_rwlock_unlock(&f->lock);
	return suspect;
}

int file_commit_part(struct file *f)
{
	int rc = 0;

	pthread_rwlock_wrlock(&f->gate);
	if (f->wants_commit && !f->lost) {
		if (is_held_up(f)) {
			(void)flush_submit_turn(f, FLUSH_ALL);
			IGNORE(flush_wait(f)); /* then the commit does without */
		} else if (is_suspect(f)) {
			/* what is on its way may have been there for the sync that failed */
			IGNORE(flush_wait(f));
		}
		rc = commit_part(f);
	}
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

static int compact(struct file *f)
{
	TRY(free_waiting(f));
	int entered = file_enter_store(f);
	TRY(entered);
	pthread_rwlock_wrlock(&f->lock);
	hold_caps(f);
	int rc = frame_compact(f->frame, COMPACT_STEP);
	pthread_rwlock_unlock(&f->lock);
	file_leave_store(f, entered);
	if (rc > 0)
		TRY(free_waiting(f));
	return rc;
}

/* Workers take space while the gate is held here. */
static bool wants_compact(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool wants = frame_wants_compact(f->frame);
	pthread_rwlock_unlock(&f->lock);
	return wants;
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

/*
 * What is in the log still waits for a commit that is
 * durable; a file with large gaps, for the keeper.
 */
static void off_the_list(struct file *f)
{
	if (!intent_has(f->fs->intent, &f->unsynced.mark) && !wants_compact(f))
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
		IGNORE(commit_part(f));
	TRY(rc);
	if (file_lacks_refused(f))
		return commit_part(f);
	if (must_become_bytewise(f))
		TRY(become_bytewise(f));
	TRY(commit(f, how));
	if (how == COMMIT_SYNC)
		file_log_committed(f);
	off_the_list(f);
	return 0;
}

int file_compact(struct file *f)
{
	int rc = 0;

	pthread_rwlock_wrlock(&f->gate);
	bool wants = f->writable && !f->inode->detached && !f->lost && wants_compact(f);
	/*
	 * What came since the last commit goes first: compact commits
	 * only what is in the frame, which larger files bear.
	 */
	if (wants && file_size(f) <= FLUSH_WHOLE && file_changed(f))
		rc = sync_gated(f, COMMIT_LATER);
	if (wants && rc >= 0)
		rc = compact(f);
	/* gaps were punched behind the last commit, and no other may come */
	if (wants && !file_changed(f)) {
		IGNORE(put_caps_back(f, COMMIT_LATER));
		if (rc == -ESTALE) /* what has changed is not ours */
			times_release(f->inode, f->fd);
		else
			times_committed(f->inode, f->fd);
	}
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

int file_sync(struct file *f, enum durability how)
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
			IGNORE(put_caps_back(f, COMMIT_LATER)); /* of a chunk that was lost */
			times_release(f->inode, f->fd);
		}
		off_the_list(f);
	}
	if (rc >= 0)
		rc = why_refused(f);
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/* The kernel shows the length that it has with them: a hole at the end, too. */
void file_forget_refused(struct file *f)
{
	uint64_t end = min_u64(arrivals_give_up(&f->arrivals), frame_max_size(f->frame));

	touched_whole(&f->unsynced.touched);
	if (end > frame_size(f->frame))
		IGNORE(file_resize_locked(f, end));
}

void file_accept_refused(struct file *f, _Atomic uint32_t *told)
{
	pthread_rwlock_rdlock(&f->gate);
	pthread_rwlock_wrlock(&f->lock);
	if (f->arrivals.refused.n && *told == f->arrivals.refusals)
		file_forget_refused(f);
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
	int rc = attributes_wait(f) ? sync_inode(f) : 0;
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
