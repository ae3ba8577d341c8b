#include "codec/parallel.h"
#include "base/container.h"
#include "codec/encoder.h"
#include "codec/scratch_impl.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

/* More are not useful: a chunk has few blocks, and there may be several callers. */
#define HELPERS_MAX 16u

#define SLOTS_KEEP (2u << 20) /* larger ones are freed after each chunk */

/* Work in `n` parts, each taken by the next free thread. */
struct task {
	int (*part)(struct task *t, struct scratch *s, uint32_t i);
	uint32_t n;
	atomic_uint next;   /* the first part not taken yet                    */
	atomic_uint failed; /* the lowest part that failed; n: none            */
	union {
		struct {
			const struct chunk *c;
			struct run run;
			struct view stored;
			uint32_t from; /* offset of `stored` in the chunk */
			struct span dst;
		} decode;
		struct {
			const struct encoder *e;
			uint8_t *slots;
			struct part {
				uint32_t len, sum; /* as encoded */
			} *parts;
		} encode;
	};
};

struct parallel {
	struct pool *pool;
	parallel_scratch_fn *scratch;
	pthread_mutex_t lock;
	pthread_cond_t quiet;  /* `active` has become 0 */
	struct task *task;     /* under lock; NULL: nothing to do                */
	unsigned active;       /* under lock; helpers inside the task            */
	unsigned nqueued;      /* under lock; jobs still queued in the pool      */
	unsigned nhelpers;
	struct buf slots, parts; /* encoded blocks before they are put together  */
	struct helper {
		struct pool_job job;
		struct parallel *owner;
		bool queued; /* under lock */
	} helper[HELPERS_MAX];
};

static void take_parts(struct task *t, struct scratch *s)
{
	for (;;) {
		unsigned i = atomic_fetch_add(&t->next, 1);
		if (i >= t->n || i > atomic_load(&t->failed))
			return;
		if (t->part(t, s, i) == 0)
			continue;
		unsigned before = atomic_load(&t->failed);
		while (i < before && !atomic_compare_exchange_weak(&t->failed, &before, i))
			;
	}
}

static void help(struct pool_job *job)
{
	struct helper *h = CONTAINER_OF(job, struct helper, job);
	struct parallel *p = h->owner;
	pthread_mutex_lock(&p->lock);
	struct task *t = p->task;
	h->queued = false;
	p->nqueued--;
	p->active++;
	pthread_mutex_unlock(&p->lock);
	struct scratch *s = t ? p->scratch() : NULL;
	if (s)
		take_parts(t, s);
	/* Signals with the lock held: parallel_close frees *p once it gets the lock. */
	pthread_mutex_lock(&p->lock);
	if (!--p->active)
		pthread_cond_signal(&p->quiet);
	pthread_mutex_unlock(&p->lock);
}

int parallel_open(struct parallel **out, struct pool *pool, parallel_scratch_fn *scratch)
{
	struct parallel *p = mem_zalloc(sizeof *p);
	*out = p;
	if (!p)
		return -ENOMEM;
	p->pool = pool;
	p->scratch = scratch;
	p->nhelpers = (unsigned)min_u64(pool_size(pool), HELPERS_MAX);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->quiet, NULL);
	for (unsigned i = 0; i < p->nhelpers; i++)
		p->helper[i] = (struct helper){.job.run = help, .owner = p};
	return 0;
}

void parallel_close(struct parallel *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	while (p->nqueued || p->active)
		pthread_cond_wait(&p->quiet, &p->lock);
	pthread_mutex_unlock(&p->lock);
	pthread_cond_destroy(&p->quiet);
	pthread_mutex_destroy(&p->lock);
	buf_free(&p->slots);
	buf_free(&p->parts);
	mem_free(p);
}

/* Helpers still queued from an earlier task will serve this one. */
static void call_helpers(struct parallel *p, struct task *t)
{
	pthread_mutex_lock(&p->lock);
	assert(!p->task);
	p->task = t;
	for (unsigned i = 0; i < p->nhelpers && i + 1 < t->n; i++) {
		struct helper *h = &p->helper[i];
		if (h->queued)
			continue;
		h->queued = true;
		p->nqueued++;
		pool_submit(p->pool, &h->job, POOL_SOON);
	}
	pthread_mutex_unlock(&p->lock);
}

/*
 * Runs all parts. If some fail, the lowest one counts, and its error note has to be this thread's:
 * so that part is done again here, and all after it, should it succeed now.
 */
static int run_task(struct parallel *p, struct scratch *s, struct task *t)
{
	atomic_init(&t->next, 0);
	atomic_init(&t->failed, t->n);
	call_helpers(p, t);
	take_parts(t, s);
	pthread_mutex_lock(&p->lock);
	p->task = NULL;
	while (p->active)
		pthread_cond_wait(&p->quiet, &p->lock);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = atomic_load(&t->failed); i < t->n; i++)
		TRY(t->part(t, s, i));
	return 0;
}

static int decode_part(struct task *t, struct scratch *s, uint32_t i)
{
	const struct chunk *c = t->decode.c;
	struct run one = {t->decode.run.first + i, 1};
	struct extent e = chunk_extent(c, one), at = chunk_block_bytes(c, one.first);
	uint32_t start = chunk_block_bytes(c, t->decode.run.first).off;
	struct view stored = view_part(t->decode.stored, e.off - t->decode.from, e.len);
	return chunk_decode(c, s, one, stored,
			    span_of(t->decode.dst.p + (at.off - start), at.len));
}

int parallel_decode(struct parallel *p, const struct chunk *c, struct run run, struct view stored,
		    struct span dst)
{
	struct scratch *s = p->scratch();
	if (!s)
		return -ENOMEM;
	if (run.n < 2 || c->kind != CHUNK_REGULAR || (chunk_wants_ref(c) && !c->ref.n))
		return chunk_decode(c, s, run, stored, dst);
	struct task t = {.part = decode_part, .n = run.n};
	t.decode.c = c;
	t.decode.run = run;
	t.decode.stored = stored;
	t.decode.from = chunk_extent(c, run).off; /* takes a pass over all blocks */
	t.decode.dst = dst;
	return run_task(p, s, &t);
}

static int encode_part(struct task *t, struct scratch *s, uint32_t i)
{
	const struct encoder *e = t->encode.e;
	struct block_plan plan = e->plan;
	size_t slot = encoder_slot(e);
	struct block b;
	struct view src = encoder_block(e, i, &b);
	TRY(scratch_state(s, plan.coder.codec, &plan.coder.state));
	ssize_t n = block_encode(&plan, s, &b, src, span_of(t->encode.slots + i * slot, slot));
	scratch_done(s);
	if (n < 0)
		return (int)n;
	assert(n > 0);
	t->encode.parts[i] = (struct part){
		(uint32_t)n, encoder_sum(e, view_of(t->encode.slots + i * slot, (size_t)n))};
	return 0;
}

/* Moves blocks from their slots into place. False: encoder_store would not be larger. */
static bool put_together(const struct task *t, struct buf *out)
{
	const struct encoder *e = t->encode.e;
	size_t slot = encoder_slot(e), sum = encoder_body(e);
	for (uint32_t i = 0; i < e->nblocks; i++)
		sum += t->encode.parts[i].len;
	if (sum > encoder_most(e))
		return false;
	out->n = encoder_body(e);
	for (uint32_t i = 0; i < e->nblocks; i++) {
		const struct part *part = &t->encode.parts[i];
		encoder_enter(e, i, part->sum, out);
		bytes_copy(out->p + out->n, t->encode.slots + i * slot, part->len);
		out->n += part->len;
	}
	encoder_finish(e, out);
	return true;
}

/* Encodes each block into a slot of its own, then moves them together. */
static int encode_blocks(struct parallel *p, const struct encoder *e, struct buf *out)
{
	TRY(buf_reserve_fresh(out, encoder_store_most(e)));
	TRY(buf_reserve_fresh(&p->slots, e->nblocks * encoder_slot(e)));
	TRY(buf_reserve_fresh(&p->parts, e->nblocks * sizeof(struct part)));
	struct task t = {.part = encode_part, .n = e->nblocks};
	t.encode.e = e;
	t.encode.slots = p->slots.p;
	t.encode.parts = (struct part *)(void *)p->parts.p;
	TRY(run_task(p, e->s, &t));
	if (!put_together(&t, out))
		encoder_store(e, out);
	return 0;
}

int parallel_encode(struct parallel *p, const struct pipeline *pl, struct view src, struct buf *out)
{
	struct encoder e;
	struct scratch *s = p->scratch();
	if (!s)
		return -ENOMEM;
	TRY(encoder_plan(&e, s, pl, src));
	if (pl->use_dict || e.nblocks < 2 || encoder_wants_store(&e))
		return chunk_encode(s, pl, src, out);
	int rc = encoder_plan_cuts(&e);
	if (!rc)
		rc = encode_blocks(p, &e, out);
	scratch_done(s);
	buf_trim(&p->slots, SLOTS_KEEP);
	return rc;
}
