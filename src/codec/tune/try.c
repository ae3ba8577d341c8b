/*
 * Trials: a sample of the chunk is encoded with a candidate, which gets a score for the result. If
 * the codec can estimate (codec.h: estimate), that is used, in half the time.
 *
 * A sample consists of a few short pieces from all over the chunk, gathered in one buffer. Eight
 * pieces of a KiB say more about a chunk than 16 KiB from two places. They do not show distant
 * matches, which matter only if no filter helps.
 */
#include "codec/chunk.h"
#include "codec/codec.h"
#include "codec/encoder.h"
#include "codec/filter.h"
#include "codec/scratch_impl.h"
#include "codec/tune/impl.h"

#include <assert.h>

void tune_build(const struct tune_goal *goal, enum tune_kind kind, uint32_t size,
		struct pipeline *p)
{
	*p = goal->base;
	pipeline_drop_filters(p);
	p->typesize = kind == TUNE_KIND_PLAIN ? 1 : size;
	if (p->blocksize)
		p->blocksize =
			(uint32_t)max_u64(p->blocksize - p->blocksize % p->typesize, p->typesize);
	uint8_t *last = p->filter + FILTER_SLOTS - 1;
	if (kind == TUNE_KIND_SHUFFLE)
		*last = FILTER_SHUFFLE;
	if (kind == TUNE_KIND_BITSHUFFLE)
		*last = FILTER_BITSHUFFLE;
	if (kind == TUNE_KIND_BYTEDELTA) {
		*last = FILTER_BYTEDELTA;
		p->meta[FILTER_SLOTS - 1] = (uint8_t)size;
		if (size > 1)
			last[-1] = FILTER_SHUFFLE;
	}
	/*
	 * Chunks may end inside such items, which are then written bytewise, in one stream
	 * (policy.h).
	 */
	if (!tune_power_of_two(p->typesize) || (goal->whole && p->typesize != goal->whole))
		p->split_mode = SPLIT_NEVER;
}

int tune_gather(struct tuner *t, const struct tune_pieces *want, enum tune_places places)
{
	struct buf *to = &t->s->dict;
	uint32_t period = t->report->period;
	size_t unit = max_u64(16, 8 * (uint64_t)(period ? period : t->report->hint.record));
	struct view v = t->sample;
	size_t pieces = want->n;
	size_t length = min_u64(want->length, max_u64(v.n / want->part, 2 * unit));
	length -= length % unit;
	assert(length); /* even the shortest pieces hold the longest unit: TUNE_ITEM_MAX */
	t->gathered = v;
	if (v.n <= pieces * length)
		return 0;
	size_t share = v.n / pieces, slack = share - length;
	to->n = 0;
	for (size_t k = 0; k < pieces; k++) {
		/*
		 * Every other piece, then the rest, so that the first half is spread over the
		 * chunk, too.
		 */
		size_t i = 2 * k < pieces ? 2 * k : 2 * k - pieces + (pieces % 2 == 0);
		size_t at = i * share + (places == TUNE_FIRST_PLACES ? slack / 4
								      : slack - slack * 3 / 10);
		TRY(buf_append(to, view_part(v, at - at % unit, length)));
	}
	t->gathered = buf_view(to);
	return 0;
}

bool tune_same_filters(const struct pipeline *a, const struct pipeline *b)
{
	return a->typesize == b->typesize && !memcmp(a->filter, b->filter, FILTER_SLOTS);
}

/* Where items are written bytewise, it takes two filters: a shuffle comes first. */
static uint32_t bitshuffle_cost(uint32_t item)
{
	if (item == 1)
		return 2;
	return tune_power_of_two(item) ? 6 : 10;
}

/*
 * What filters, and additional streams, cost a reader, in 1/1000 of the size. The numbers are not
 * measured: they are ordered like the times, and small, so that they only decide near ties. Of 100
 * files (images, grids, fonts, libraries, text) none is stored differently if all are halved or
 * doubled, and one if they are 0. TUNE_SPEED multiplies them.
 */
static uint32_t reader_cost(const struct pipeline *p, enum tune_aim aim)
{
	static const uint32_t weight[] = {[TUNE_BALANCED] = 1, [TUNE_SIZE] = 0, [TUNE_SPEED] = 4};
	uint32_t cost = encoder_splits(p) ? p->typesize : 0;
	for (unsigned i = 0; i < FILTER_SLOTS; i++)
		switch (p->filter[i]) {
		case FILTER_SHUFFLE: cost += 4; break;
		case FILTER_BITSHUFFLE: cost += bitshuffle_cost(p->typesize); break;
		case FILTER_BYTEDELTA: cost += 12; break;
		}
	return cost * weight[aim];
}

/* *stored = 0: the codec cannot tell. */
static int estimate_sample(struct tuner *t, const struct pipeline *p, struct view v, size_t *stored)
{
	struct encoder e;
	size_t sum = 0;
	*stored = 0;
	TRY(encoder_plan(&e, t->s, p, v));
	for (uint32_t i = 0; i < e.nblocks; i++) {
		struct block b;
		ssize_t n = block_estimate(&e.plan, t->s, encoder_block(&e, i, &b));
		if (n <= 0)
			return (int)n;
		sum += (size_t)n;
	}
	*stored = sum;
	return 0;
}

/* A piece of at least this size has most of the matches of a block: somewhat less than 16 KiB. */
#define BLOCK_WITH_MATCHES (12u << 10)

/*
 * Lowers the score of the candidate without a filter where a sample hides its advantages: distant
 * matches, what the next level saves (tune_raise_level), and the other parts of a file whose parts
 * differ. Most of all for codecs other than zstd, which depend on matches. The fractions were
 * measured: docs/SPEED.md, "No filter, and records".
 */
static uint64_t favour_plain(const struct tuner *t, uint64_t score)
{
	const struct tune_hint *hint = &t->report->hint;
	bool matches_only = t->goal->base.codec != CODEC_ZSTD;
	score -= t->wordy && t->block < BLOCK_WITH_MATCHES ? score / 32 : 0;
	if (hint->tables && !matches_only)
		score -= score / 16;
	return score - (hint->mixed ? score / (matches_only ? 8 : 16) : 0);
}

/* The form of a candidate for encoding a sample. */
static struct pipeline for_sample(const struct pipeline *p)
{
	struct pipeline one = *p;
	one.use_dict = false;
	one.no_sums = true;
	return one;
}

/*
 * Encodes the gathered bytes. `trial` is taken out of the scratch meanwhile: at its end,
 * chunk_encode frees a large one, together with its length.
 */
static int encode_sample(struct tuner *t, const struct pipeline *p, size_t *stored)
{
	struct buf out = t->s->trial;
	t->s->trial = (struct buf){0};
	int rc = chunk_encode(t->s, p, t->gathered, &out);
	*stored = out.n;
	t->s->trial = out;
	scratch_done(t->s);
	return rc;
}

int tune_try(struct tuner *t, const struct pipeline *p, struct tune_trial *trial)
{
	struct view v = t->gathered;
	struct pipeline one = for_sample(p);
	size_t block = t->block ? t->block : v.n;
	one.blocksize = (uint32_t)max_u64(block - block % p->typesize, p->typesize);
	size_t stored = 0;
	TRY(estimate_sample(t, &one, v, &stored));
	if (!stored)
		TRY(encode_sample(t, &one, &stored));
	*trial = (struct tune_trial){
		.pipeline = *p, .sampled = (uint32_t)v.n, .stored = (uint32_t)stored};
	uint64_t score = (uint64_t)stored * (1000 + reader_cost(p, t->goal->aim)) / 1000;
	const struct tune_hint *hint = &t->report->hint;
	if (p->typesize > 1 && (p->typesize == hint->item || p->typesize == hint->record))
		score -= score / 100; /* the header breaks near ties */
	if (!tune_is_filtered(p))
		score = favour_plain(t, score);
	trial->score = (uint32_t)score;
	return 0;
}

int tune_try_coded(struct tuner *t, const struct pipeline *p, struct tune_trial *trial)
{
	struct pipeline one = for_sample(p);
	size_t stored;
	TRY(encode_sample(t, &one, &stored));
	*trial = (struct tune_trial){.pipeline = *p,
				     .sampled = (uint32_t)t->gathered.n,
				     .stored = (uint32_t)stored,
				     .score = (uint32_t)stored};
	return 0;
}

int tune_try_plain(struct tuner *t, struct tune_trial *trial)
{
	struct pipeline plain, one;
	tune_build(t->goal, TUNE_KIND_PLAIN, 1, &plain);
	one = plain;
	tune_raise_level(t->goal, &one);
	one.blocksize = (uint32_t)t->gathered.n;
	TRY(tune_try_coded(t, &one, trial));
	trial->pipeline = plain;
	return 0;
}

unsigned tune_place_of_plain(const struct tune_report *r)
{
	unsigned i = 0;
	while (tune_is_filtered(&r->tried[i].pipeline))
		i++;
	assert(i < r->ntried);
	return i;
}

void tune_bring(struct tune_report *r, struct tune_trial trial, unsigned from, unsigned place)
{
	assert(r->ntried < TUNE_TRIED_MAX || from < r->ntried);
	r->ntried += from == r->ntried;
	memmove(&r->tried[place + 1], &r->tried[place], (from - place) * sizeof *r->tried);
	r->tried[place] = trial;
}

void tune_sort(struct tune_trial *list, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = i; k > 0 && list[k].score < list[k - 1].score; k--) {
			struct tune_trial swap = list[k];
			list[k] = list[k - 1];
			list[k - 1] = swap;
		}
}

bool tune_far_behind(const struct tune_trial *a, const struct tune_trial *best)
{
	return a->score > best->score + best->score / 10;
}

uint32_t tune_permille(const struct tune_trial *trial)
{
	return (uint32_t)((uint64_t)trial->stored * 1000 / trial->sampled);
}

bool tune_pays(const struct tune_goal *goal, const struct tune_trial *trial)
{
	/* The least to be saved, in 1/1000 of the bytes. */
	static const uint32_t least[] = {
		[TUNE_BALANCED] = 30, [TUNE_SIZE] = 8, [TUNE_SPEED] = 60};
	return tune_permille(trial) + least[goal->aim] <= 1000;
}
