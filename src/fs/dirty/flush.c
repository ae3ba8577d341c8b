#include "fs/dirty/flush.h"

#include "base/container.h"
#include "base/log.h"
#include "fs/dirty/buffers.h"
#include "fs/dirty/encode.h"
#include "fs/file/loss.h"
#include "fs/file/share.h"
#include "fs/inode/caps.h"
#include "fs/inode/inode.h"
#include "fs/stats.h"

#include <assert.h>
#include <limits.h>

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

/* Writes to free space of the frame, without the lock, so that writers can go on. */
static int store(struct file *f, uint32_t n, struct view stored, struct frame_place *p)
{
	caps_note(f->inode, f->fd);
	pthread_rwlock_wrlock(&f->lock);
	int rc = frame_alloc(f->frame, n, (uint32_t)stored.n, p);
	pthread_rwlock_unlock(&f->lock);
	TRY(rc);
	rc = frame_write(f->frame, p, stored);
	if (rc < 0) {
		pthread_rwlock_wrlock(&f->lock);
		frame_unalloc(f->frame, p);
		pthread_rwlock_unlock(&f->lock);
	}
	return rc;
}

static int store_shared(struct file *f, uint32_t n, struct view stored, struct frame_place *p)
{
	int how = file_try_enter_store(f);

	TRY(how);
	int rc = store(f, n, stored, p);
	sidecar_leave(&f->sidecar, how);
	return rc;
}

/* Call before encoding, which would be in vain for a chunk that cannot be stored. */
static int may_store(struct file *f)
{
	if (!f->sidecar.there)
		return 0;
	int how = file_try_enter_store(f);
	sidecar_leave(&f->sidecar, how);
	return how < 0 ? how : 0;
}

/* The outcome of storing a chunk. */
struct outcome {
	int rc;       /* enum encoded, or a failure */
	bool damaged; /* as in encode_chunk */
	struct frame_place place; /* ENCODED: where it is in the frame */
};

static void tell_lost(struct file *f, uint32_t n, int rc)
{
	char name[NAME_MAX + 1], text[ERR_TEXT_MAX];

	inode_log_name(f->fs->inodes, f->inode, name);
	log_err("%s: what was written to chunk %u is lost: %s", name, n, err_text(rc, text));
	/* If part of it was synced, the intent log may now have the only copy. */
	intent_link_aside(f->fs->intent, &f->unsynced.mark);
}

/*
 * Makes the chunk clean, or DIRTY again if it could not be stored: then it returns why. 0 also if
 * it is lost, since the bytes below its pages cannot be read.
 */
static int land(struct file *f, struct dirty_chunk *c, const struct outcome *o)
{
	uint32_t n = c->n;

	assert(!o->damaged || o->rc < 0);
	pthread_rwlock_wrlock(&f->lock);
	dirty_set_remove(&f->dirty.flushing, c);
	f->dirty.replacing -= c->replaces;
	if (o->rc >= 0 && o->rc != ENCODED_OUTDATED && !dirty_is_outdated(f, c)) {
		file_replace_chunk(f, n, &o->place);
		dirty_free_stored(f, c);
	} else if (o->damaged) {
		file_lose(f, o->rc); /* before the log takes old bytes for what was written */
		dirty_free(f, c);
	} else {
		if (o->rc == ENCODED)
			frame_unalloc(f->frame, &o->place);
		dirty_put_back_take(f, c);
	}
	pthread_rwlock_unlock(&f->lock);
	if (o->damaged)
		tell_lost(f, n, o->rc);
	return o->rc < 0 && !o->damaged ? o->rc : 0;
}

static void count_encoded(const struct dirty_chunk *c, uint64_t stored, uint64_t start)
{
	meter_time(STATS_TIME_ENCODE, start);
	stats_add(STATS_CHUNKS_ENCODED, 1);
	stats_add(STATS_ENCODED_FROM, c->len);
	stats_add(STATS_ENCODED_TO, stored);
}

static struct outcome encode_and_store(struct file *f, const struct dirty_chunk *c)
{
	struct workspace *ws = workspace_get();
	struct outcome o = {.rc = -ENOMEM};
	uint64_t start = meter_now();
	err_clear();
	if (ws)
		o.rc = may_store(f);
	if (o.rc == 0)
		o.rc = encode_chunk(f, c, ws, &o.damaged);
	if (o.rc == ENCODED || o.rc == ENCODED_HOLE)
		count_encoded(c, o.rc == ENCODED ? ws->stored.n : 0, start);
	if (o.rc == ENCODED) {
		int rc = store_shared(f, c->n, buf_view(&ws->stored), &o.place);
		if (rc < 0)
			o.rc = rc;
	}
	return o;
}

static void enter_flight(struct file *f)
{
	pthread_mutex_lock(&f->flight.lock);
	f->flight.chunks++;
	pthread_mutex_unlock(&f->flight.lock);
	budget_flight_begin(f->fs->budget);
}

/* `rc`: why the chunk is DIRTY again; 0: it is stored, or lost. */
static void leave_flight(struct file *f, int rc)
{
	pthread_mutex_lock(&f->flight.lock);
	if (rc < 0 && !f->flight.rc)
		f->flight.rc = rc;
	budget_flight_end(f->fs->budget, f, rc);
	/* The file may be freed as soon as the last chunk is counted as landed. */
	f->flight.chunks--;
	pthread_cond_broadcast(&f->flight.landed);
	pthread_mutex_unlock(&f->flight.lock);
}

static void flush_run(struct pool_job *job)
{
	struct dirty_chunk *c = CONTAINER_OF(job, struct dirty_chunk, job);
	struct file *f = c->file;
	struct budget_buffers held = c->buffers;

	buffers_begin(f->fs, &held);
	struct outcome o = encode_and_store(f, c);
	policy_pass(&f->policy, c->turn); /* in case no choice of a pipeline has ended its turn */
	int rc = land(f, c, &o);
	workspace_trim();
	buffers_end(f->fs, &held);
	leave_flight(f, rc);
}

/* From DIRTY to FLUSHING; there is no older copy that is FLUSHING yet. */
static void start_flushing(struct file *f, struct dirty_chunk *c)
{
	c->len = frame_chunk_span(f->frame, c->n).len;
	assert(c->bytes.n <= c->len);
	c->written = 0;
	c->replaces = frame_slot(f->frame, c->n) == SLOT_STORED;
	c->file_size = frame_size(f->frame);
	f->maybe_typed |= !policy_wants_bytewise(&f->policy, c->file_size, f->chunk_size);
	dirty_set_remove(&f->dirty.dirty, c);
	dirty_set_add(&f->dirty.flushing, c);
	f->dirty.replacing += c->replaces;
	enter_flight(f);
	c->turn = policy_turn(&f->policy);
	c->buffers = (struct budget_buffers){0};
	c->job.run = flush_run;
}

static void submit(struct file *f, struct dirty_chunk *c)
{
	if (dirty_find_flushing(&f->dirty, c->n))
		return;
	start_flushing(f, c);
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
		start_flushing(f, c);
	bool own = c && (c->len <= SMALL || buffers_take(c));
	pthread_rwlock_unlock(&f->lock);
	if (own)
		flush_run(&c->job);
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
