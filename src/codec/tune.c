/* The choice itself: candidates, trials on samples, and what wins. */
#include "codec/tune.h"
#include "codec/chunk.h"
#include "codec/codec.h"
#include "codec/filter.h"
#include "codec/scratch_impl.h"
#include "codec/tune_impl.h"

#include <assert.h>

#define PIECE (16u << 10)     /* bytes of a sample */
#define AGAIN (16u << 20)
#define AGAIN_STORED (4u << 20)

enum kind { PLAIN, SHUFFLE, BITSHUFFLE, BYTEDELTA };

/* Everything that a choice in progress knows. */
struct tuner {
	struct scratch *s;
	const struct tune_goal *goal;
	struct view sample;
	struct tune_report *report;
	struct tune_scan scan;
};

static void build(const struct tuner *t, enum kind kind, uint32_t size, struct pipeline *p)
{
	*p = t->goal->base;
	memset(p->filter, 0, sizeof p->filter);
	memset(p->meta, 0, sizeof p->meta);
	p->typesize = kind == PLAIN ? 1 : size;
	if (p->blocksize)
		p->blocksize -= p->blocksize % p->typesize;
	uint8_t *last = p->filter + FILTER_SLOTS - 1;
	if (kind == SHUFFLE)
		*last = FILTER_SHUFFLE;
	if (kind == BITSHUFFLE)
		*last = FILTER_BITSHUFFLE;
	if (kind == BYTEDELTA) {
		*last = FILTER_BYTEDELTA;
		p->meta[FILTER_SLOTS - 1] = (uint8_t)size;
		if (size > 1)
			last[-1] = FILTER_SHUFFLE;
	}
	/* Items that chunks cut are written bytewise, in one stream: be judged as such. */
	if (16 % p->typesize)
		p->split_mode = SPLIT_NEVER;
}

/* The place of sample i of n, spread evenly. */
static struct view piece(struct view v, unsigned i, unsigned n, size_t length)
{
	if (v.n <= length)
		return v;
	size_t at = (size_t)((v.n - length) * (uint64_t)(2 * i + 1) / (2 * n));
	return view_part(v, at & ~(size_t)15, length);
}

/* What a filter costs a reader, in 1/1000 of the size, by aim. */
static uint32_t price(const struct pipeline *p, enum tune_aim aim)
{
	static const uint32_t weight[] = {
		[TUNE_BALANCED] = 1, [TUNE_SIZE] = 0, [TUNE_SPEED] = 5};
	uint32_t cost = 0;
	for (unsigned i = 0; i < FILTER_SLOTS; i++)
		switch (p->filter[i]) {
		case FILTER_SHUFFLE: cost += 4; break;
		case FILTER_BITSHUFFLE: cost += 6; break;
		case FILTER_BYTEDELTA: cost += 8; break;
		}
	return cost * weight[aim];
}

static int try_one(struct tuner *t, enum kind kind, uint32_t size)
{
	struct tune_report *r = t->report;
	if (r->ntried == TUNE_TRIED_MAX)
		return 0;
	struct tune_trial *trial = &r->tried[r->ntried++];
	*trial = (struct tune_trial){0};
	build(t, kind, size, &trial->pipeline);
	struct pipeline p = trial->pipeline;
	p.blocksize = PIECE - PIECE % p.typesize;
	p.split_mode = SPLIT_NEVER;
	p.use_dict = false;
	unsigned n = t->sample.n <= PIECE ? 1 : 2;
	for (unsigned i = 0; i < n; i++) {
		struct view v = piece(t->sample, i, n, PIECE);
		TRY(chunk_encode(t->s, &p, v, &t->s->trial));
		trial->sampled += (uint32_t)v.n;
		trial->stored += (uint32_t)t->s->trial.n;
	}
	trial->score = (uint32_t)((uint64_t)trial->stored *
				  (1000 + price(&trial->pipeline, t->goal->aim)) / 1000);
	if (r->item && size == r->item)
		trial->score -= trial->score / 100;
	return 0;
}

static void add_item(struct tune_scan *scan, uint32_t size)
{
	for (unsigned i = 0; i < scan->n; i++)
		if (scan->item[i].size == size)
			return;
	if (size && scan->n < TUNE_ITEMS_MAX)
		scan->item[scan->n++] = (struct tune_item){.size = size};
}

static uint64_t least_bits(const struct tune_item *item)
{
	return min_u64(item->plain, item->delta);
}

/* Best first. */
static void sort_items(struct tune_scan *scan)
{
	for (unsigned i = 1; i < scan->n; i++)
		for (unsigned k = i; k > 0 && least_bits(&scan->item[k]) < least_bits(&scan->item[k - 1]); k--) {
			struct tune_item swap = scan->item[k];
			scan->item[k] = scan->item[k - 1];
			scan->item[k - 1] = swap;
		}
}

static int try_filters(struct tuner *t)
{
	for (unsigned i = 0; i < t->scan.n && i < 3; i++) {
		const struct tune_item *item = &t->scan.item[i];
		if (item->size > 1)
			TRY(try_one(t, SHUFFLE, item->size));
		TRY(try_one(t, BYTEDELTA, item->size));
		if (item->size > 1)
			TRY(try_one(t, BITSHUFFLE, item->size));
	}
	return 0;
}

static const struct tune_trial *best_of(const struct tune_report *r)
{
	const struct tune_trial *best = &r->tried[0];
	for (unsigned i = 1; i < r->ntried; i++)
		if (r->tried[i].score < best->score)
			best = &r->tried[i];
	return best;
}

int tune_choose(struct scratch *s, const struct tune_goal *goal, const struct tune_input *in,
		struct pipeline *out, struct tune_report *report)
{
	struct tuner t = {.s = s, .goal = goal, .sample = in->sample, .report = report};
	struct tune_hint hint = tune_head(in->head);

	*out = goal->base;
	*report = (struct tune_report){.format = hint.format, .item = hint.item, .permille = 1000,
				       .again = AGAIN};
	if (!in->sample.n || !goal->base.level)
		return 0;
	struct view v = piece(in->sample, 0, 2, PIECE);
	report->period = tune_period(v);
	for (uint32_t size = 1; size <= 16; size *= 2)
		add_item(&t.scan, size);
	add_item(&t.scan, hint.item);
	add_item(&t.scan, hint.record);
	add_item(&t.scan, report->period);
	tune_scan(&t.scan, v);
	sort_items(&t.scan);
	TRY(try_one(&t, PLAIN, 1));
	TRY(try_filters(&t));
	const struct tune_trial *best = best_of(report);
	*out = best->pipeline;
	report->permille = (uint32_t)((uint64_t)best->stored * 1000 / best->sampled);
	if (report->permille > 1000 - 1000 / 32) {
		out->level = 0;
		report->again = AGAIN_STORED;
	}
	return 0;
}

bool tune_still_good(const struct tune_report *report, uint64_t since, uint64_t bytes,
		     uint64_t stored)
{
	if (since >= report->again)
		return false;
	/* An eighth more than expected, and 2 % for what a small chunk costs anyway. */
	uint64_t expected = bytes / 1000 * report->permille;
	return stored <= expected + expected / 8 + bytes / 50;
}
