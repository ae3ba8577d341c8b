#include "fs/dirty/flush.h"

#include "fs/dirty/buffers.h"
#include "fs/dirty/store.h"
#include "fs/file/file.h"
#include "fs/workspace.h"

/* A chunk of up to this size is encoded faster than another thread is woken and wakes this one. */
#define SMALL (16u << 10)

/*
 * The number of chunks in a batch: at least BATCH_LEAST, to keep the workers busy; otherwise a
 * BATCH_SHARE-th of the file, so that a file that is completely rewritten stays below 1.5 times its
 * size.
 */
#define BATCH_LEAST 4u
#define BATCH_SHARE 12u

/*
 * Full chunks wait for those before them, up to this many bytes (or chunks): as much as the
 * daemon's threads may have read from the kernel in order and deliver here in any order.
 */
#define HELD_BYTES (32u << 20)
#define HELD_LEAST 32u

static void submit(struct file *f, struct dirty_chunk *c)
{
	if (dirty_find_flushing(&f->dirty, c->n))
		return;
	store_begin(f, c);
	if (buffers_take(c))
		pool_submit(f->fs->pool, &c->job, POOL_LATER);
}

/* The only chunk in memory, if it is DIRTY and has up to `most` bytes; else NULL. */
static struct dirty_chunk *only_chunk(struct file *f, uint32_t most)
{
	struct dirty_chunk *c = dirty_set_from(&f->dirty.dirty, 0);
	bool alone = f->dirty.dirty.count == 1 && !f->dirty.flushing.count;

	return alone && frame_chunk_span(f->frame, c->n).len <= most ? c : NULL;
}

/*
 * Stores that chunk on the calling thread; or has a worker do so, if there is no memory for it yet.
 * False: there is none. The buffers for a small chunk are too small to be counted.
 */
static bool store_only(struct file *f, uint32_t most)
{
	pthread_rwlock_wrlock(&f->lock);
	struct dirty_chunk *c = only_chunk(f, most);
	if (c)
		store_begin(f, c);
	bool own = c && (c->len <= SMALL || buffers_take(c));
	pthread_rwlock_unlock(&f->lock);
	if (own)
		store_run(&c->job);
	return c != NULL;
}

bool flush_only(struct file *f)
{
	bool lent = workspace_borrow();
	bool only = store_only(f, lent ? FLUSH_WHOLE : SMALL);

	if (lent)
		workspace_return();
	return only;
}

bool flush_early_suits(uint64_t end)
{
	return end <= SMALL && end % mem_page_size();
}

void flush_early(struct file *f, uint64_t end)
{
	pthread_rwlock_rdlock(&f->lock);
	/* Fsyncs in quick succession go to the log, without any of this. */
	bool suits = frame_size(f->frame) == end && !f->unsynced.quick;
	pthread_rwlock_unlock(&f->lock);
	if (suits)
		(void)store_only(f, SMALL);
}

static unsigned batch_size(struct file *f)
{
	uint64_t least = max_u64(BATCH_LEAST, FLUSH_WHOLE / f->chunk_size);
	return (unsigned)max_u64(least, frame_nchunks(f->frame) / BATCH_SHARE);
}

/*
 * True: as many bytes were written to the chunk as it holds, so it is probably complete. That its
 * end was written would say little, since the kernel sends pages in any order.
 */
static bool is_full(const struct file *f, const struct dirty_chunk *c)
{
	return c->written >= f->chunk_size;
}

static void submit_full(struct file *f, struct dirty_chunk *c)
{
	if (frame_slot(f->frame, c->n) != SLOT_STORED || f->dirty.replacing < batch_size(f))
		submit(f, c);
}

/* Submits the full chunks that waited only for the one before them. */
static void submit_successors(struct file *f)
{
	struct dirty_chunk *c;

	while ((c = dirty_find(&f->dirty, f->dirty.next)) && is_full(f, c)) {
		f->dirty.held -= f->dirty.held > 0;
		f->dirty.next++;
		submit_full(f, c);
	}
}

/* Submits the waiting chunks: those that they wait for may be holes, and never come. */
static void submit_held(struct file *f)
{
	const struct dirty_set *dirty = &f->dirty.dirty;
	struct dirty_chunk *c;

	f->dirty.held = 0;
	DIRTY_SET_EACH(dirty, f->dirty.next, n, c) {
		if (!is_full(f, c))
			continue;
		f->dirty.next = n + 1;
		submit_full(f, c);
	}
}

void flush_if_full(struct file *f, struct dirty_chunk *c)
{
	uint32_t n = c->n;

	if (!is_full(f, c))
		return;
	if (n > f->dirty.next) {
		if (++f->dirty.held > max_u64(HELD_LEAST, HELD_BYTES / f->chunk_size))
			submit_held(f);
		return;
	}
	submit_full(f, c);
	if (n == 0 || n == f->dirty.next)
		f->dirty.next = n + 1;
	submit_successors(f);
}

unsigned flush_submit_batch(struct file *f, unsigned most)
{
	struct dirty_chunk *c;

	pthread_rwlock_wrlock(&f->lock);
	unsigned at_once = batch_size(f), now = f->dirty.replacing, sent = 0;
	f->dirty.held = 0;
	DIRTY_SET_EACH(&f->dirty.dirty, 0, n, c) {
		bool replaces = frame_slot(f->frame, n) == SLOT_STORED;
		if (!c->must_store && (sent >= most || (replaces && now >= at_once)))
			continue;
		sent++;
		now += replaces;
		f->dirty.next = (uint32_t)max_u64(f->dirty.next, n + 1);
		submit(f, c);
	}
	unsigned flushing = f->dirty.flushing.count;
	pthread_rwlock_unlock(&f->lock);
	return flushing;
}

int flush_wait(struct file *f)
{
	pthread_mutex_lock(&f->flight.lock);
	while (f->flight.chunks)
		pthread_cond_wait(&f->flight.landed, &f->flight.lock);
	int rc = f->flight.rc;
	f->flight.rc = 0;
	pthread_mutex_unlock(&f->flight.lock);
	return rc;
}
