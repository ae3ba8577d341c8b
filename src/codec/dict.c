#include "codec/dict.h"
#include "codec/chunk_impl.h"
#include "codec/scratch_impl.h"

/*
 * The dictionary is stored in the chunk, so it has to save at least its own size. It gets a 64th of
 * the data (the reference's 20th was too expensive on 230 KB of records), at most 32 KiB. Below 256
 * bytes it never pays (FORMAT.md 4).
 */
#define DICT_SHARE 64
#define DICT_MIN 256

/*
 * The trainer wants many samples, but learns little from more than this. Their total length is a
 * multiple of the dictionary's: zdict.h recommends 100, but a chunk does not have that much.
 */
#define SAMPLES 256
#define SAMPLED_TIMES 32
#define SAMPLE_MIN 8 /* bytes: the trainer rejects shorter ones */

struct sampling {
	size_t each;      /* bytes per sample                          */
	uint32_t step;    /* samples are taken from every step-th block */
	size_t per_block; /* samples from each of those                */
};

/*
 * Plans samples for a dictionary of up to `max` bytes. False: the chunk, or a block, is too small.
 */
static bool plan_sampling(const struct encoder *e, size_t max, struct sampling *sm)
{
	sm->each = min_u64(e->src.n, SAMPLED_TIMES * max) / SAMPLES;
	sm->step = (uint32_t)ceil_div(e->nblocks, SAMPLES);
	sm->per_block = ceil_div(SAMPLES, ceil_div(e->nblocks, sm->step));
	return max >= DICT_MIN && sm->each >= SAMPLE_MIN && sm->each <= e->blocksize;
}

/* Filters a block and copies samples from it, evenly spread, to the end of `out`. */
static int sample_block(const struct encoder *e, uint32_t i, const struct sampling *sm,
			struct buf *out)
{
	struct block b;
	struct view v, src = encoder_block(e, i, &b);
	TRY(block_filter(&e->plan, e->s, &b, src, &v));
	for (size_t k = 0; k < sm->per_block && v.n >= sm->each; k++) {
		size_t at = (size_t)((uint64_t)(v.n - sm->each) * k / sm->per_block);
		TRY(buf_append(out, view_part(v, at, sm->each)));
	}
	return 0;
}

int dict_make(const struct encoder *e, struct buf *dict)
{
	size_t max = min_u64(DICT_MAX_WRITE, e->src.n / DICT_SHARE);
	struct sampling sm;
	struct buf *samples = &e->s->trial;
	samples->n = dict->n = 0;
	if (!plan_sampling(e, max, &sm))
		return 0;
	for (uint32_t i = 0; i < e->nblocks; i += sm.step)
		TRY(sample_block(e, i, &sm, samples));
	TRY(buf_reserve_fresh(dict, max));
	ssize_t n = e->plan.coder.codec->dict_make(buf_view(samples), samples->n / sm.each,
						   span_of(dict->p, max));
	if (n > 0)
		dict->n = (size_t)n;
	return 0;
}
