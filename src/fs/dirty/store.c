#include "fs/dirty/store.h"

#include "base/container.h"
#include "fs/dirty/buffers.h"
#include "fs/dirty/encode.h"
#include "fs/file/loss.h"
#include "fs/file/share.h"
#include "fs/inode/caps.h"
#include "fs/stats.h"

#include <assert.h>

/* Writes to free space of the frame, without the lock, so that writers can go on. */
static int write_stored(struct file *f, uint32_t n, struct view stored, struct frame_place *p)
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

static int write_shared(struct file *f, uint32_t n, struct view stored, struct frame_place *p)
{
	int how = file_try_enter_store(f);

	TRY(how);
	int rc = write_stored(f, n, stored, p);
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
	char text[ERR_TEXT_MAX];

	file_log_err(f, "what was written to chunk %u is lost: %s", n, err_text(rc, text));
	/* If part of it was synced, the intent log may now have the only copy. */
	intent_link_aside(f->fs->intent, &f->unsynced.mark);
}

/*
 * Makes the chunk clean, or DIRTY again if it could not be stored: then it returns why. 0 also if
 * it is outdated (dirty.h), or lost, since the bytes below its pages cannot be read.
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
		int rc = write_shared(f, c->n, buf_view(&ws->stored), &o.place);
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

void store_run(struct pool_job *job)
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

void store_begin(struct file *f, struct dirty_chunk *c)
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
	c->job.run = store_run;
}
