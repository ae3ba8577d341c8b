#include "fs/file/write_impl.h"

#include "frame/range.h"
#include "fs/dirty/flush.h"
#include "fs/file/commit.h"
#include "fs/file/loss.h"
#include "fs/file/share.h"
#include "fs/inode/times.h"
#include "fs/read/fetch.h"
#include "fs/room.h"
#include "fs/stats.h"
#include "fs/workspace.h"

void file_note_change(struct file *f, enum file_source from)
{
	if (from == FILE_FROM_CALLER)
		times_touch(f->inode);
	uncommitted_add(f);
}

int file_check_memory(const struct file *f)
{
	const struct options *o = &f->fs->opt;
	uint64_t most = options_chunksize_writable(o);

	if (f->chunk_size <= most || f->replaying)
		return 0;
	if (!atomic_exchange(&f->inode->told.large_chunks, true))
		file_log_err(f, "its chunks have %u bytes: writing to it takes -o dirty_max=%lluM",
			     f->chunk_size, (unsigned long long)ceil_div(f->chunk_size, 1 << 19));
	return -E2BIG;
}

/*
 * True: the last chunk may get longer, or shorter again, without being decoded here, since all that
 * is stored of it stays, and its checksums have been verified. (Once the write is accepted, only
 * the worker that stores the chunk would find damage, and then the file could never be committed
 * again.) Only a chunk that stays the last, and short: for any other the frame soon forgets how
 * long it was, when the length of the next one changes (frame_stored_len), and it is encoded as a
 * whole anyway.
 */
static bool can_lengthen(struct file *f, uint32_t n, uint64_t new_size)
{
	struct dirty_chunk *c = dirty_find(&f->dirty, n);
	struct workspace *ws = workspace_get();
	struct chunk stored = {0};

	if (range_chunk(new_size, f->chunk_size) > n || dirty_find_flushing(&f->dirty, n) ||
	    frame_slot(f->frame, n) != SLOT_STORED || !ws ||
	    range_within(new_size, f->chunk_size) < frame_stored_len(f->frame, n))
		return false;
	if (c && (c->whole || c->must_store))
		return true;
	int rc = frame_load_chunk(f->frame, n, ws->scratch, &stored);
	bool sums = rc >= 0 && stored.sums;
	if (sums)
		rc = frame_check_blocks((struct frame_chunk){f->frame, n, &stored}, ws->scratch);
	chunk_deinit(&stored);
	err_clear(); /* if it cannot be read, the caller will find out, too */
	return sums && rc >= 0;
}

/*
 * A stored last chunk whose length is about to change must be rewritten: it is loaded into memory
 * while the frame still knows its length; or, where it only gets longer, just a DIRTY copy for what
 * is new. Then a write that fails can be undone without reading the chunk. Holes fit any length.
 */
static int load_tail(struct file *f, uint64_t new_size)
{
	uint64_t old = frame_size(f->frame);
	uint64_t shorter = min_u64(old, new_size);
	struct dirty_chunk *c;

	if (old == new_size || range_within(shorter, f->chunk_size) == 0)
		return 0;
	uint32_t n = range_chunk(shorter, f->chunk_size);
	if (frame_is_hole(f->frame, n) && !dirty_find_flushing(&f->dirty, n))
		return 0;
	TRY(file_check_memory(f));
	if (can_lengthen(f, n, new_size))
		c = dirty_get(f, n);
	else
		TRY(dirty_get_whole(f, n, &c));
	if (!c)
		return -ENOMEM;
	c->must_store = true;
	uncommitted_add(f); /* even if the resize fails */
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
	uint64_t nchunks = range_nchunks(size, f->chunk_size);
	DIRTY_SET_EACH(&f->dirty.dirty, 0, n, c) {
		if (n >= nchunks)
			dirty_drop(f, c);
		else
			dirty_cut(c, frame_chunk_span(f->frame, n).len);
	}
	return 0;
}

/* After a failure p->hi is the end of what was written. */
static int write_piece(struct file *f, struct piece *p, const uint8_t *src, struct buf *own)
{
	struct dirty_chunk *c;

	TRY(dirty_write(f, p, src, own, &c));
	c->written += p->hi - p->lo;
	flush_if_full(f, c);
	return 0;
}

void file_shrink_back(struct file *f, uint64_t size)
{
	if (file_resize_locked(f, size) < 0)
		arrivals_lack(&f->arrivals, size, frame_size(f->frame));
}

/*
 * An empty file is about to get the chunk size of the present options (file_adopt_pipeline). One
 * that cannot be written has no limit here: file_check_change refuses it, wherever the write would
 * end.
 */
static uint64_t max_size(const struct file *f)
{
	if (!frame_writable(f->frame))
		return UINT64_MAX;
	if (frame_size(f->frame) > 0)
		return frame_max_size(f->frame);
	struct settings s = file_settings(f);
	return frame_max_size(f->frame) / f->chunk_size * s.chunksize;
}

static bool reaches(const struct file *f, uint64_t at, uint64_t n)
{
	uint64_t end;

	return !add_overflows(at, n, &end) && end <= max_size(f);
}

bool file_can_reach(struct file *f, uint64_t at, uint64_t n)
{
	pthread_rwlock_rdlock(&f->lock);
	bool can = reaches(f, at, n);
	pthread_rwlock_unlock(&f->lock);
	return can;
}

/* Makes the file ready to take the bytes, and long enough. */
static int prepare_write(struct file *f, uint64_t at, size_t n)
{
	uint64_t old = frame_size(f->frame);

	TRY(file_check_change(f));
	if (!reaches(f, at, n))
		return -EFBIG;
	if (old == 0)
		file_adopt_pipeline(f);
	TRY(file_check_memory(f));
	return at + n > old ? file_resize_locked(f, at + n) : 0;
}

/* How far a write has got: `n` bytes, and the error that stopped it there; 0: that was all. */
struct written {
	size_t n;
	int rc;
};

static struct written write_locked(struct file *f, const struct file_data *d)
{
	uint64_t old = frame_size(f->frame);
	struct written w = {.rc = prepare_write(f, d->at, d->bytes.n)};
	struct piece p;

	if (w.rc < 0)
		return w;
	struct range r = range_of(d->at, d->bytes.n, f->chunk_size);
	while (w.rc >= 0 && range_next(&r, &p)) {
		struct buf *own = p.hi - p.lo == d->bytes.n ? d->own : NULL;
		w.rc = write_piece(f, &p, d->bytes.p + w.n, own);
		w.n += p.hi - p.lo;
	}
	uint64_t end = d->at + w.n;
	if (w.rc < 0 && d->at + d->bytes.n > old)
		file_shrink_back(f, w.n ? max_u64(old, end) : old);
	if (w.rc < 0)
		touched_whole(&f->unsynced.touched);
	else
		touched_add(&f->unsynced.touched, d->at, w.n);
	arrivals_come(&f->arrivals, old, d->at, end);
	if (w.n && end > old)
		(void)file_accept_long_refused(f);
	return w;
}

/* The most memory that a write can take: each chunk as a whole. */
static uint64_t most_memory(struct file *f, uint64_t at, size_t n)
{
	uint32_t size = f->chunk_size;

	return range_nchunks(range_within(at, size) + n, size) * size;
}

static struct written write_gated(struct file *f, const struct file_data *d, enum file_source from)
{
	pthread_rwlock_rdlock(&f->gate);
	if (from == FILE_FROM_WRITEBACK)
		times_hold(f->inode, f->fd);
	pthread_rwlock_wrlock(&f->lock);
	struct written w = write_locked(f, d);
	pthread_rwlock_unlock(&f->lock);
	if (w.n) {
		file_note_change(f, from);
		stats_add(STATS_WRITE_BYTES, w.n);
	}
	pthread_rwlock_unlock(&f->gate);
	return w;
}

int file_commit_replaced(struct file *f)
{
	int rc = f->wants_commit ? file_commit_part(f) : 0;
	return rc == -EAGAIN ? 0 : rc;
}

/*
 * One writer at a time: a writer that waited inside the gate would keep out the commit that frees
 * the space of replaced chunks.
 */
static struct written write_in_turn(struct file *f, const struct file_data *d,
				    enum file_source from)
{
	pthread_mutex_lock(&f->writing);
	struct written w = {.rc = file_commit_replaced(f)};
	if (w.rc >= 0) {
		file_catch_up(f);
		w = write_gated(f, d, from);
	}
	pthread_mutex_unlock(&f->writing);
	return w;
}

/*
 * After a write that has changed nothing. If nothing else waits either, no commit will end what
 * times_hold began.
 */
static void settle_times(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	if (!file_changed(f))
		times_release(f->inode, f->fd);
	pthread_rwlock_unlock(&f->gate);
}

/*
 * Appending to a stored chunk means reading it (load_tail). Only chunks larger than blocksize_most
 * may have blocks for which there is not enough memory.
 */
static int check_tail(struct file *f)
{
	uint64_t size = frame_size(f->frame);
	struct fetch x = {.f = f, .n = range_chunk(size, f->chunk_size)};

	if (f->chunk_size <= f->fs->opt.settings.blocksize_most ||
	    range_within(size, f->chunk_size) == 0 || frame_slot(f->frame, x.n) != SLOT_STORED ||
	    dirty_find(&f->dirty, x.n))
		return 0;
	int rc = fetch_check_memory(&x);
	return rc == -E2BIG ? rc : 0; /* reading it will tell */
}

int file_check_writing(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = frame_size(f->frame) && !f->lost ? file_check_memory(f) : 0;
	if (rc == 0)
		rc = check_tail(f);
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/*
 * Pages from the kernel's cache were taken only as far as `w` says: the kernel drops the others,
 * and what the file had in their place stays. Returns the error for the kernel, even if some were
 * taken: for writeback the kernel does not check the count, and would take a short one for success.
 * -EAGAIN becomes -EIO, since the application would only repeat its fsync, and the bytes are gone.
 */
static int refuse(struct file *f, const struct file_data *d, struct written w)
{
	uint64_t lo = d->at + w.n, hi = d->at + d->bytes.n;
	int error = w.rc == -EAGAIN ? -EIO : w.rc;

	pthread_rwlock_rdlock(&f->gate);
	pthread_rwlock_wrlock(&f->lock);
	(void)file_accept_long_refused(f); /* first: what is refused now is newer */
	arrivals_refuse(&f->arrivals, frame_size(f->frame), lo, hi, error);
	pthread_rwlock_unlock(&f->lock);
	pthread_rwlock_unlock(&f->gate);
	return error;
}

/*
 * Memory may be full of data for which the disk has no room, though a removed file may soon free
 * some; or of data that has to wait for another program's lock.
 */
int file_enter_budget(struct file *f, uint64_t most, size_t data)
{
	struct room_wait room = {0};
	struct lock_wait lock = {.what = SIDECAR_STORE};
	int rc;

	file_wait_for_others(f); /* not with memory reserved */
	do
		rc = budget_enter(f->fs->budget, most, data, f);
	while (file_room_comes(f, rc, &room) || file_lock_comes(f, rc, &lock));
	return rc;
}

ssize_t file_write(struct file *f, const struct file_data *d, enum file_source from)
{
	uint64_t most = most_memory(f, d->at, d->bytes.n);

	if (d->bytes.n == 0)
		return 0;
	err_clear();
	struct written w = {.rc = file_enter_budget(f, most, d->bytes.n)};
	bool entered = w.rc >= 0;
	if (entered)
		w = write_in_turn(f, d, from);
	ssize_t rc = w.n ? (ssize_t)w.n : w.rc;
	if (w.rc < 0 && from == FILE_FROM_WRITEBACK)
		rc = refuse(f, d, w);
	if (entered && rc < 0)
		settle_times(f);
	if (entered)
		budget_leave(f->fs->budget, most);
	return rc;
}
