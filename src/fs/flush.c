#include "fs/flush.h"

#include "base/log.h"
#include "fs/encode.h"
#include "fs/stats.h"

#include <assert.h>

/* Space is taken under the lock, filled outside of it, so that writers go on meanwhile. */
static int store(struct file *f, struct view cchunk, uint64_t *at)
{
	pthread_rwlock_wrlock(&f->lock);
	int rc = frame_alloc(f->frame, (uint32_t)cchunk.n, at);
	pthread_rwlock_unlock(&f->lock);
	TRY(rc);
	rc = frame_write(f->frame, *at, cchunk);
	if (rc < 0) {
		pthread_rwlock_wrlock(&f->lock);
		frame_unalloc(f->frame, *at, (uint32_t)cchunk.n);
		pthread_rwlock_unlock(&f->lock);
	}
	return rc;
}

/* Back to DIRTY, unless a newer copy has all of it already. */
static void put_back(struct file *f, struct dirty_chunk *c)
{
	struct dirty_chunk *newer;

	HASH_FIND(hh, f->dirty.dirty, &c->n, sizeof c->n, newer);
	if (!newer) {
		HASH_ADD(hh, f->dirty.dirty, n, sizeof c->n, c);
		if (c->hh.tbl)
			return;
		log_err("chunk %u lost: no memory", c->n);
	}
	dirty_free(f, c);
}

/* Publishes the result; from here on the chunk is clean, or DIRTY again. */
static void land(struct file *f, struct dirty_chunk *c, int rc, bool zeros, uint64_t at, uint32_t len)
{
	uint32_t n = c->n;

	pthread_rwlock_wrlock(&f->lock);
	HASH_DEL(f->dirty.flushing, c);
	if (rc < 0) {
		put_back(f, c);
	} else {
		if (zeros)
			frame_put_zeros(f->frame, n);
		else
			frame_put(f->frame, n, at, len);
		f->wants_commit = frame_wants_commit(f->frame);
		cache_drop(f->fs->cache, (struct cache_key){f->cache_owner, n});
		dirty_free(f, c);
	}
	pthread_rwlock_unlock(&f->lock);
}

static void count_encoded(const struct dirty_chunk *c, uint64_t stored, uint64_t start)
{
	meter_time(STATS_TIME_ENCODE, start);
	stats_add(STATS_CHUNKS_ENCODED, 1);
	stats_add(STATS_ENCODED_FROM, c->bytes.n);
	stats_add(STATS_ENCODED_TO, stored);
}

static void flush_run(struct pool_job *job, unsigned worker)
{
	struct dirty_chunk *c = (struct dirty_chunk *)job;
	struct file *f = c->file;
	struct budget *budget = f->fs->budget;
	struct workspace *ws = workspace_get();
	uint64_t at = 0;
	bool zeros = false;

	(void)worker;
	uint64_t start = meter_now();
	int rc = ws ? encode_chunk(f, c, ws, &zeros) : -ENOMEM;
	if (rc >= 0)
		count_encoded(c, zeros ? 0 : ws->stored.n, start);
	if (rc >= 0 && !zeros)
		rc = store(f, buf_view(&ws->stored), &at);
	land(f, c, rc, zeros, at, ws ? (uint32_t)ws->stored.n : 0);

	pthread_mutex_lock(&f->flight_lock);
	if (rc < 0 && !f->flush_rc)
		f->flush_rc = rc;
	budget_flight_end(budget, rc);
	/* The file may be freed as soon as the last chunk is counted as landed. */
	if (--f->in_flight == 0)
		pthread_cond_broadcast(&f->landed);
	pthread_mutex_unlock(&f->flight_lock);
}

void flush_submit(struct file *f, struct dirty_chunk *c)
{
	uint32_t len = frame_chunk_span(f->frame, c->n).len;

	if (dirty_find_flushing(&f->dirty, c->n))
		return;
	assert(c->bytes.n <= len);
	if (dirty_pad(f, c, len) < 0)
		return; /* stays DIRTY; the next flush tries again */
	c->written = 0;
	c->file_size = frame_size(f->frame);
	f->items_whole |= !policy_wants_bytewise(&f->policy, c->file_size, frame_info(f->frame)->chunk_size);
	HASH_DEL(f->dirty.dirty, c);
	HASH_ADD(hh, f->dirty.flushing, n, sizeof c->n, c);
	if (!c->hh.tbl) {
		HASH_ADD(hh, f->dirty.dirty, n, sizeof c->n, c);
		return;
	}
	pthread_mutex_lock(&f->flight_lock);
	f->in_flight++;
	pthread_mutex_unlock(&f->flight_lock);
	budget_flight_begin(f->fs->budget);
	c->job.run = flush_run;
	pool_submit(f->fs->pool, &c->job, POOL_LATER);
}

unsigned flush_submit_all(struct file *f)
{
	struct dirty_chunk *c, *next;

	pthread_rwlock_wrlock(&f->lock);
	HASH_ITER(hh, f->dirty.dirty, c, next)
		flush_submit(f, c);
	unsigned left = HASH_COUNT(f->dirty.flushing);
	pthread_rwlock_unlock(&f->lock);
	return left;
}

int flush_wait(struct file *f)
{
	pthread_mutex_lock(&f->flight_lock);
	while (f->in_flight)
		pthread_cond_wait(&f->landed, &f->flight_lock);
	int rc = f->flush_rc;
	f->flush_rc = 0;
	pthread_mutex_unlock(&f->flight_lock);
	return rc;
}

int flush_all(struct file *f)
{
	IGNORE(flush_wait(f)); /* what failed before is DIRTY again and gets its next try now */
	for (;;) {
		unsigned left = flush_submit_all(f);
		TRY(flush_wait(f));
		if (!left) {
			pthread_rwlock_rdlock(&f->lock);
			bool clean = !f->dirty.dirty;
			pthread_rwlock_unlock(&f->lock);
			return clean ? 0 : -ENOMEM; /* a chunk could not even be handed over */
		}
	}
}
