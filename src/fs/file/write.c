#include "fs/file/write.h"

#include "base/log.h"
#include "frame/range.h"
#include "fs/dirty/flush.h"
#include "fs/file/share.h"
#include "fs/file/sync.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"
#include "fs/room.h"
#include "fs/stats.h"

#include <assert.h>
#include <limits.h>

/* Puts the file on the list for the background commit, and updates its times. */
static void changed(struct file *f, enum file_clock clock)
{
	if (clock == FILE_CLOCK_NOW)
		times_touch(f->inode);
	budget_file_changed(f->fs->budget, f);
}

static uint32_t chunk_size(const struct file *f)
{
	return frame_info(f->frame)->chunk_size;
}

/*
 * Writing a part of a chunk takes memory for all of it, several times over. -E2BIG: that is too
 * much. What a crash left in the log was accepted before, so it passes.
 */
static int check_memory(const struct file *f)
{
	const struct options *o = &f->fs->opt;
	uint64_t most = options_chunksize_writable(o);
	char name[NAME_MAX + 1];

	if (chunk_size(f) <= most || f->replaying)
		return 0;
	if (!atomic_exchange(&f->inode->told_large_chunks, true)) {
		inode_name(f->fs->inodes, f->inode, name);
		log_err("%s: its chunks have %u bytes: to write to it takes "
			"-o dirty_max=%lluM",
			name, chunk_size(f), (unsigned long long)ceil_div(chunk_size(f), 1 << 19));
	}
	return -E2BIG;
}

/*
 * A stored last chunk whose length is about to change must be rewritten: it is loaded while the
 * frame still knows its length. Holes fit any length.
 */
static int load_tail(struct file *f, uint64_t new_size)
{
	uint64_t old = frame_size(f->frame);
	uint64_t shorter = min_u64(old, new_size);
	struct dirty_chunk *c;

	if (old == new_size || shorter % chunk_size(f) == 0)
		return 0;
	uint32_t n = range_chunk(shorter, chunk_size(f));
	if (frame_is_hole(f->frame, n) && !dirty_find_flushing(&f->dirty, n))
		return 0;
	TRY(check_memory(f));
	TRY(dirty_get_whole(f, n, &c));
	c->must = true;
	return 0;
}

int file_resize_locked(struct file *f, uint64_t size)
{
	struct dirty_chunk *c;

	TRY(load_tail(f, size));
	uint64_t old = frame_size(f->frame);
	TRY(frame_resize(f->frame, size));
	arrivals_resize(&f->arrivals, size);
	if (size >= old)
		return 0;
	uint64_t nchunks = range_nchunks(size, chunk_size(f));
	for (uint32_t n = 0; (c = dirty_set_from(&f->dirty.dirty, n)); n++) {
		n = c->n;
		if (n >= nchunks)
			dirty_drop(f, c);
		else
			dirty_cut(c, frame_chunk_span(f->frame, c->n).len);
	}
	return 0;
}

/*
 * A chunk is probably complete when as many bytes have come as it holds: then the workers may have
 * it. That its end was written says little, since the kernel sends pages in any order.
 */
static int write_piece(struct file *f, const struct piece *p, const uint8_t *src, struct buf *own)
{
	struct dirty_chunk *c;

	TRY(dirty_write(f, *p, src, own, &c));
	c->written += p->hi - p->lo;
	if (c->written >= chunk_size(f))
		flush_submit_full(f, c);
	return 0;
}

/* Undoes the growth: what could not be written was not there before either. */
static void shrink_back(struct file *f, uint64_t size)
{
	if (file_resize_locked(f, size) < 0)
		arrivals_lack(&f->arrivals, size, frame_size(f->frame));
}

static ssize_t write_locked(struct file *f, const struct file_data *d)
{
	uint64_t old = frame_size(f->frame), end;
	size_t done = 0, n = d->bytes.n;
	struct piece p;
	int rc = 0;

	if (add_overflows(d->at, n, &end) || end > frame_max_size(f->frame))
		return -EFBIG;
	if (old == 0)
		file_adopt_pipeline(f);
	TRY(check_memory(f));
	if (end > old)
		TRY(file_resize_locked(f, end));
	struct range r = range_of(d->at, n, chunk_size(f));
	while (rc >= 0 && range_next(&r, &p)) {
		struct buf *own = p.hi - p.lo == n ? d->own : NULL;
		rc = write_piece(f, &p, d->bytes.p + done, own);
		if (rc >= 0)
			done += p.hi - p.lo;
	}
	if (rc < 0 && end > old)
		shrink_back(f, done ? max_u64(old, d->at + done) : old);
	if (rc < 0)
		touched_whole(&f->unsynced.touched);
	else
		touched_add(&f->unsynced.touched, d->at, n);
	arrivals_come(&f->arrivals, old, d->at, d->at + done);
	if (done && d->at + done > old)
		(void)file_accept_long_refused(f);
	return done ? (ssize_t)done : rc;
}

/* The most memory that a write can take: all of each chunk. */
static uint64_t claim(struct file *f, uint64_t at, size_t n)
{
	uint64_t size = f->chunk_size;

	return ceil_div(at % size + n, size) * size;
}

static ssize_t write_gated(struct file *f, const struct file_data *d, enum file_clock clock)
{
	pthread_rwlock_rdlock(&f->gate);
	if (clock == FILE_CLOCK_KERNEL)
		times_hold(f->inode, f->fd);
	pthread_rwlock_wrlock(&f->lock);
	ssize_t rc = f->lost ? -EIO : write_locked(f, d);
	pthread_rwlock_unlock(&f->lock);
	if (rc >= 0) {
		changed(f, clock);
		stats_add(STATS_WRITE_BYTES, (uint64_t)rc);
	}
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/*
 * Commits, so that the space of replaced chunks is free. While another program has the lock, the
 * file grows instead: nobody would repeat a write that is refused here.
 */
static int commit_replaced(struct file *f)
{
	int rc = f->wants_commit ? file_commit_part(f) : 0;
	return rc == -EAGAIN ? 0 : rc;
}

/*
 * One writer at a time: a writer that waited inside the gate would keep out the commit that frees
 * the space of replaced chunks.
 */
static ssize_t write_entered(struct file *f, const struct file_data *d, enum file_clock clock)
{
	pthread_mutex_lock(&f->writing);
	ssize_t rc = commit_replaced(f);
	if (rc >= 0)
		file_catch_up(f);
	if (rc >= 0)
		rc = write_gated(f, d, clock);
	pthread_mutex_unlock(&f->writing);
	return rc;
}

/*
 * A write has changed nothing, and perhaps nothing else waits: then no commit will end what
 * times_hold began.
 */
static void settle_times(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	if (!file_changed(f))
		times_release(f->inode, f->fd);
	pthread_rwlock_unlock(&f->gate);
}

int file_check_writing(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = frame_size(f->frame) && !f->lost ? check_memory(f) : 0;
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/*
 * Pages from the kernel's cache could not be taken, or not all of them: the kernel drops them, and
 * what the file had in their place stays. Returns the error for the kernel: a short count becomes
 * -EIO, since the kernel does not count what it sends from its cache and would take that for
 * success; -EAGAIN becomes -EIO, since the application would only repeat its fsync, and the bytes
 * are gone.
 */
static ssize_t refuse(struct file *f, const struct file_data *d, ssize_t rc)
{
	uint64_t lo = d->at + (rc < 0 ? 0 : (uint64_t)rc), hi = d->at + d->bytes.n;
	int error = rc < 0 && rc != -EAGAIN ? (int)rc : -EIO;

	pthread_rwlock_rdlock(&f->gate);
	pthread_rwlock_wrlock(&f->lock);
	(void)file_accept_long_refused(f); /* what is refused now is newer */
	arrivals_refuse(&f->arrivals, frame_size(f->frame), lo, hi, error);
	pthread_rwlock_unlock(&f->lock);
	pthread_rwlock_unlock(&f->gate);
	return error;
}

/*
 * Memory may be full of data that finds no room, where a file was perhaps just removed; or of data
 * that has to wait for another program's lock.
 */
int file_enter_budget(struct file *f, uint64_t most)
{
	struct room_wait room = {0};
	struct lock_wait lock = {.what = SIDECAR_STORE};
	int rc;

	file_wait_for_others(f); /* not with memory reserved */
	do
		rc = budget_enter(f->fs->budget, most, f);
	while ((!f->inode->nameless && room_soon(f->fs, &room, rc)) ||
	       file_lock_comes(f, rc, &lock));
	return rc;
}

ssize_t file_write(struct file *f, const struct file_data *d, enum file_clock clock)
{
	uint64_t most = claim(f, d->at, d->bytes.n);

	if (d->bytes.n == 0)
		return 0;
	err_clear();
	ssize_t rc = file_enter_budget(f, most);
	bool entered = rc >= 0;
	if (entered)
		rc = write_entered(f, d, clock);
	if (rc < (ssize_t)d->bytes.n && clock == FILE_CLOCK_KERNEL)
		rc = refuse(f, d, rc);
	if (entered && rc < 0)
		settle_times(f);
	if (entered)
		budget_leave(f->fs->budget, most);
	return rc;
}

void file_enter_alone(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	pthread_rwlock_wrlock(&f->lock);
	/* the gate does not keep a writer of another file from flushing this one */
	while (f->dirty.flushing.count) {
		pthread_rwlock_unlock(&f->lock);
		IGNORE(flush_wait(f)); /* it will be tried again */
		pthread_rwlock_wrlock(&f->lock);
	}
	touched_whole(&f->unsynced.touched); /* whoever wants to be alone changes more than bytes */
}

void file_leave_alone(struct file *f)
{
	pthread_rwlock_unlock(&f->lock);
	pthread_rwlock_unlock(&f->gate);
}

static int enter(struct file *f)
{
	err_clear();
	file_catch_up(f);
	file_enter_alone(f);
	return f->lost ? -EIO : 0;
}

/*
 * Follows enter_to_store. The new times need the lock of the inode, which comes before the sidecar.
 */
static int leave_stored(struct file *f, enum sidecar_entered how, int rc)
{
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	if (rc >= 0)
		changed(f, FILE_CLOCK_NOW);
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

static int leave(struct file *f, int rc)
{
	return leave_stored(f, SIDECAR_NONE, rc);
}

int file_truncate(struct file *f, uint64_t size)
{
	file_wait_for_others(f);
	int rc = enter(f);
	if (rc >= 0)
		rc = size > frame_max_size(f->frame) ? -EFBIG : file_resize_locked(f, size);
	if (rc >= 0)
		arrivals_release(&f->arrivals, size, UINT64_MAX);
	return leave(f, rc);
}

int file_extend(struct file *f, uint64_t size)
{
	int rc = enter(f);
	if (rc >= 0 && size > frame_max_size(f->frame))
		rc = -EFBIG;
	else if (rc >= 0 && size > frame_size(f->frame))
		rc = file_resize_locked(f, size);
	return leave(f, rc);
}

static int zero_piece(struct file *f, const struct piece *p)
{
	struct dirty_chunk *c = dirty_find(&f->dirty, p->chunk);

	if (p->lo == 0 && p->hi == frame_chunk_span(f->frame, p->chunk).len) {
		if (c)
			dirty_drop(f, c);
		frame_put_zeros(f->frame, p->chunk);
		return 0;
	}
	if (!c && frame_is_hole(f->frame, p->chunk))
		return 0;
	TRY(check_memory(f));
	return dirty_write(f, *p, NULL, NULL, &c);
}

int file_zero(struct file *f, uint64_t at, uint64_t len)
{
	struct piece p;

	int rc = enter(f);
	uint64_t size = frame_size(f->frame);
	if (rc >= 0 && at < size) {
		struct range r = range_of(at, min_u64(len, size - at), chunk_size(f));
		while (rc >= 0 && range_next(&r, &p))
			rc = zero_piece(f, &p);
		if (rc >= 0)
			arrivals_release(&f->arrivals, at, at + min_u64(len, size - at));
	}
	return leave(f, rc);
}

/* Do the rules of policy.h allow this chunk in the file? */
static int admit(struct file *f, const struct file_chunk *c, uint64_t size)
{
	struct policy_guest g = {.origin = &c->origin,
				 .file_size = size,
				 .chunk_size = chunk_size(f),
				 .first = frame_size(f->frame) == 0};
	struct chunk shape = {0};
	bool adopted;

	if (!c->stored.n)
		return 1;
	int rc = chunk_parse(&shape, c->stored, c->stored.n, 0);
	g.typesize = shape.typesize;
	g.blocksize = shape.blocksize;
	chunk_deinit(&shape);
	if (rc)
		return rc < 0 ? rc : 0;
	if (!policy_admit(&f->policy, &g, &adopted))
		return 0;
	if (adopted) {
		struct pipeline header = policy_header(&f->policy);
		frame_set_pipeline(f->frame, &header);
	}
	f->items_whole |= g.typesize > 1;
	return 1;
}

static int store_raw(struct file *f, uint32_t n, struct view stored, uint64_t *at)
{
	if (!stored.n)
		return 0;
	caps_hold(f->inode, f->fd);
	TRY(frame_alloc(f->frame, n, (uint32_t)stored.n, at));
	int rc = frame_write(f->frame, *at, stored);
	if (rc < 0)
		frame_unalloc(f->frame, *at, (uint32_t)stored.n);
	return rc;
}

static int put_chunk(struct file *f, const struct file_chunk *c)
{
	uint64_t old = frame_size(f->frame), at = 0;
	uint64_t end = (uint64_t)c->n * c->size + c->len;

	if (old == 0)
		file_adopt_pipeline(f);
	if (chunk_size(f) != c->size)
		return 0;
	if (end > frame_max_size(f->frame))
		return -EFBIG;
	if (c->len < chunk_size(f) && end < old)
		return 0; /* bytes of the old chunk stay behind it */
	int rc = admit(f, c, max_u64(old, end));
	if (rc <= 0)
		return rc;
	if (end > old)
		TRY(file_resize_locked(f, end));
	rc = store_raw(f, c->n, c->stored, &at);
	if (rc < 0) {
		if (end > old)
			shrink_back(f, old);
		return rc;
	}
	struct dirty_chunk *dirty = dirty_find(&f->dirty, c->n);
	if (dirty)
		dirty_drop(f, dirty);
	if (c->stored.n)
		frame_put(f->frame, c->n, at, (uint32_t)c->stored.n);
	else
		frame_put_zeros(f->frame, c->n);
	arrivals_come(&f->arrivals, old, (uint64_t)c->n * c->size, end);
	cache_drop(f->fs->cache, (struct cache_key){f->cache_owner, c->n});
	f->wants_commit = frame_wants_commit(f->frame);
	return 1;
}

/* As enter, to store to the frame. *how: for leave_stored, also if it fails. */
static int enter_to_store(struct file *f, enum sidecar_entered *how)
{
	int rc = enter(f), entered;

	for (;;) {
		pthread_rwlock_unlock(&f->lock); /* comes behind it */
		entered = file_enter_store(f, how);
		pthread_rwlock_wrlock(&f->lock);
		if (!f->dirty.flushing.count)
			break;
		pthread_rwlock_unlock(&f->lock);
		sidecar_leave(&f->sidecar, *how); /* chunks on their way enter it, too */
		IGNORE(flush_wait(f));
		pthread_rwlock_wrlock(&f->lock);
	}
	return rc < 0 ? rc : entered;
}

static int put_chunk_once(struct file *f, const struct file_chunk *c)
{
	enum sidecar_entered how;

	TRY(commit_replaced(f));
	int rc = enter_to_store(f, &how);
	return leave_stored(f, how, rc < 0 ? rc : put_chunk(f, c));
}

/* More often than another program changes a file between two looks at it. */
#define STALE_TRIES 8

static int put_chunk_entered(struct file *f, const struct file_chunk *c)
{
	uint64_t most = claim(f, 0, 1); /* the last chunk, when it gets longer */

	TRY(file_enter_budget(f, most));
	int rc = put_chunk_once(f, c);
	/* What another program wrote is read first, unless changes of ours wait for that frame. */
	for (int i = 1; rc == -ESTALE && i < STALE_TRIES && !file_changed(f); i++)
		rc = put_chunk_once(f, c);
	budget_leave(f->fs->budget, most);
	return rc;
}

int file_put_chunk(struct file *f, const struct file_chunk *c)
{
	struct lock_wait lock = {.what = SIDECAR_STORE};
	int rc;

	do
		rc = put_chunk_entered(f, c);
	while (file_lock_comes(f, rc, &lock));
	return rc;
}
