#include "codec/dict.h"
#include "codec/chunk_impl.h"
#include "codec/scratch_impl.h"

/*
 * The chunk contains its dictionary, so that has to earn its own size first. It gets a 64th of the
 * data (the reference's 20th was too expensive on 230 KB of records), at most 32 KiB. Below 256
 * bytes it never pays (FORMAT.md 4).
 */
#define DICT_SHARE 64
#define DICT_MIN 256

/* The trainer wants many samples; it learns little from more than this. */
#define SAMPLES 256
#define SAMPLE_MIN 8

struct sampling {
	size_t n;    /* samples in all, the same number from each block taken */
	size_t each; /* bytes a sample                                        */
	uint32_t step; /* every step-th block                                 */
};

/* Filters a block and copies samples from it, evenly spread, to the end of `out`. */
static int sample_block(const struct encoder *e, uint32_t i, const struct sampling *sm,
			struct buf *out)
{
	struct block b;
	struct view v, src = encoder_block(e, i, &b);
	TRY(block_filter(&e->plan, e->s, &b, src, &v));
	size_t taken = ceil_div(e->nblocks, sm->step), per_block = ceil_div(sm->n, taken);
	for (size_t k = 0; k < per_block && v.n >= sm->each; k++) {
		size_t at = (size_t)((uint64_t)(v.n - sm->each) * k / per_block);
		TRY(buf_append(out, view_part(v, at, sm->each)));
	}
	return 0;
}

int dict_make(const struct encoder *e, struct buf *dict)
{
	size_t max = min_u64(DICT_MAX_WRITE, e->src.n / DICT_SHARE);
	struct sampling sm = {.n = SAMPLES, .step = 1};
	dict->n = 0;
	if (e->nblocks > SAMPLES)
		sm.step = (uint32_t)ceil_div(e->nblocks, SAMPLES);
	/* The trainer asks for many times what the dictionary will hold. */
	sm.each = min_u64(e->src.n, 32 * max) / sm.n;
	if (max < DICT_MIN || sm.each < SAMPLE_MIN || sm.each > e->blocksize)
		return 0;
	struct buf *samples = &e->s->trial;
	samples->n = 0;
	for (uint32_t i = 0; i < e->nblocks; i += sm.step)
		TRY(sample_block(e, i, &sm, samples));
	TRY(buf_reserve_fresh(dict, max));
	ssize_t n = e->plan.coder.codec->dict_make(buf_view(samples), samples->n / sm.each,
						   span_of(dict->p, max));
	if (n > 0)
		dict->n = (size_t)n;
	return 0;
}
