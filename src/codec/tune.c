/*
 * The choice itself: which candidates are tried, on what, and which one wins.
 *
 * Samples are gathered: a few short pieces from all over the chunk, put together.
 * Encoding 32 KiB of one place says less about a chunk than 8 KiB of four, and costs the same.
 * What is lost are distant matches, which count where no filter is any good.
 */
#include "codec/tune.h"
#include "codec/chunk.h"
#include "codec/codec.h"
#include "codec/filter.h"
#include "codec/scratch_impl.h"
#include "codec/tune_impl.h"

#include <assert.h>

#define PIECES 4
#define FIRST_LOOK (2u << 10)
#define SECOND_LOOK (8u << 10)
#define DELTA_PIECES 2
#define DELTA_LOOK (16u << 10)
/* Of a small chunk a piece is no more than this part: its encoding takes no time either. */
#define SHARE 64
#define SCANNED (8u << 10)

#define AGAIN (32u << 20)
#define AGAIN_TIE (1u << 20)
#define AGAIN_STORED                                                                               \
	(16u << 20) /* finding out that nothing helps is cheap, but storing is cheaper */

#define PATIENCE_MAX 3

/* Less saved than this is not worth decoding for, in 1/1000 of the bytes. */
static const uint32_t worth[] = {[TUNE_BALANCED] = 30, [TUNE_SIZE] = 8, [TUNE_SPEED] = 60};

enum kind { PLAIN, SHUFFLE, BYTEDELTA, BITSHUFFLE };

/* Everything that a choice in progress knows. */
struct tuner {
	struct scratch *s;
	const struct tune_goal *goal;
	struct view sample;
	struct tune_hint hint;
	struct tune_report *report;
	struct tune_scan scan;
	struct view gathered; /* in the scratch's dictionary buffer, which trials leave alone */
	size_t block;         /* of a trial; 0: all that is gathered */
};

static bool power_of_two(uint32_t x)
{
	return (x & (x - 1)) == 0;
}

static void build(const struct tune_goal *goal, enum kind kind, uint32_t size, struct pipeline *p)
{
	*p = goal->base;
	memset(p->filter, 0, sizeof p->filter);
	memset(p->meta, 0, sizeof p->meta);
	p->typesize = kind == PLAIN ? 1 : size;
	if (p->blocksize)
		p->blocksize =
			(uint32_t)max_u64(p->blocksize - p->blocksize % p->typesize, p->typesize);
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
	/*
	 * Such items are written bytewise, in one stream, and
	 * judged as such; chunks cut the odd ones.
	 */
	if (!power_of_two(p->typesize) || (goal->whole && p->typesize != goal->whole))
		p->split_mode = SPLIT_NEVER;
}

/*
 * So many pieces of at most `length` bytes, spread evenly; `late` moves them by half a
 * piece's share, so that a second look sees other bytes. Pieces begin and end between items.
 */
static int gather(struct tuner *t, size_t pieces, size_t length, bool late)
{
	struct buf *to = &t->s->dict;
	uint32_t period = t->report->period;
	size_t unit = max_u64(16, 8 * (uint64_t)(period ? period : t->hint.record));
	struct view v = t->sample;
	length = min_u64(length, max_u64(t->sample.n / SHARE, 2 * unit));
	length -= length % unit;
	t->gathered = v;
	if (v.n <= pieces * length)
		return 0;
	size_t share = v.n / pieces, slack = share - length;
	to->n = 0;
	for (size_t i = 0; i < pieces; i++) {
		size_t at = i * share + (late ? slack - slack / 4 : slack / 4);
		TRY(buf_append(to, view_part(v, at - at % unit, length)));
	}
	t->gathered = buf_view(to);
	return 0;
}

static bool is_split(const struct pipeline *p)
{
	return p->codec != CODEC_ZSTD && p->split_mode != SPLIT_NEVER && p->typesize > 1 &&
	       p->typesize <= 16 && memchr(p->filter, FILTER_SHUFFLE, FILTER_SLOTS);
}

/* What a filter, or a stream more, costs a reader, in 1/1000 of the size. */
static uint32_t price(const struct pipeline *p, enum tune_aim aim)
{
	static const uint32_t weight[] = {[TUNE_BALANCED] = 1, [TUNE_SIZE] = 0, [TUNE_SPEED] = 4};
	uint32_t cost = is_split(p) ? p->typesize : 0;
	for (unsigned i = 0; i < FILTER_SLOTS; i++)
		switch (p->filter[i]) {
		case FILTER_SHUFFLE: cost += 4; break;
		/*
		 * Of items that are written bytewise it is two filters: bytes are gathered first.
		 */
		case FILTER_BITSHUFFLE: cost += power_of_two(p->typesize) ? 6 : 10; break;
		case FILTER_BYTEDELTA: cost += 12; break;
		}
	return cost * weight[aim];
}

/*
 * Streams of a sample are shorter than those of a block will be, and each pays
 * for its own tables: 40 bytes a stream, by measurement, that a longer one spreads.
 */
static uint32_t table_excess(const struct pipeline *p, size_t n, uint32_t stored)
{
	if (!is_split(p))
		return 0;
	uint64_t block =
		p->blocksize ? p->blocksize : max_u64(64u << 10, (uint64_t)p->typesize << 14);
	if (block <= n)
		return 0;
	uint64_t excess = 40 * (uint64_t)p->typesize * (block - n) / block;
	return (uint32_t)min_u64(excess, stored / 16);
}

/* Encodes what is gathered, as one block where nothing else is said. */
static int try_pipeline(struct tuner *t, const struct pipeline *p, struct tune_trial *trial)
{
	struct view v = t->gathered;
	struct pipeline one = *p;
	size_t block = t->block ? t->block : v.n;
	one.blocksize = (uint32_t)(block - block % p->typesize);
	one.use_dict = false;
	if (!one.blocksize)
		one.blocksize = one.typesize;
	TRY(chunk_encode(t->s, &one, v, &t->s->trial));
	uint32_t stored = (uint32_t)t->s->trial.n;
	uint32_t nblocks = (uint32_t)(v.n / block);
	stored -= nblocks * table_excess(p, block, stored / nblocks);
	*trial = (struct tune_trial){.pipeline = *p, .sampled = (uint32_t)v.n, .stored = stored};
	uint64_t score = (uint64_t)stored * (1000 + price(p, t->goal->aim)) / 1000;
	if (p->typesize > 1 && (p->typesize == t->hint.item || p->typesize == t->hint.record))
		score -= score / 100;
	trial->score = (uint32_t)score;
	return 0;
}

static int try_kind(struct tuner *t, enum kind kind, uint32_t size)
{
	struct tune_report *r = t->report;
	struct pipeline p;
	assert(r->ntried < TUNE_TRIED_MAX);
	build(t->goal, kind, size, &p);
	return try_pipeline(t, &p, &r->tried[r->ntried++]);
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

/* Best first; the smaller item among equals. */
static void sort_items(struct tune_scan *scan)
{
	for (unsigned i = 1; i < scan->n; i++)
		for (unsigned k = i; k > 0; k--) {
			struct tune_item *a = &scan->item[k - 1], *b = &scan->item[k], swap = *a;
			if (least_bits(a) <= least_bits(b))
				break;
			*a = *b;
			*b = swap;
		}
}

static void scan_items(struct tuner *t)
{
	for (uint32_t size = 1; size <= 16; size *= 2)
		add_item(&t->scan, size);
	add_item(&t->scan, t->hint.item);
	add_item(&t->scan, t->hint.record);
	add_item(&t->scan, t->report->period);
	tune_scan(&t->scan, view_part(t->gathered, 0, min_u64(SCANNED, t->gathered.n)));
	sort_items(&t->scan);
}

#define ITEMS_TRIED 3

/* A filter whose bytes alone look a sixth worse than its sister's does not catch up by matches. */
static int try_item(struct tuner *t, const struct tune_item *item, bool bits)
{
	if (item->size > 1 && item->plain < item->delta + item->delta / 6)
		TRY(try_kind(t, SHUFFLE, item->size));
	if (item->delta < item->plain + item->plain / 6)
		TRY(try_kind(t, BYTEDELTA, item->size));
	return bits && item->size > 1 ? try_kind(t, BITSHUFFLE, item->size) : 0;
}

/*
 * Text and code: matches of whole words save more than all that an item size explains.
 * Random bytes: neither matches nor places explain anything.
 */
static bool filters_hopeless(const struct tuner *t)
{
	const struct tune_trial *plain = &t->report->tried[0];
	uint64_t least = least_bits(&t->scan.item[0]);
	uint64_t scanned = min_u64(SCANNED, plain->sampled);
	uint64_t coded = (uint64_t)plain->stored * 8 * scanned / plain->sampled;
	bool rows = t->report->period || t->hint.record; /* matches of whole rows */
	if (!rows && coded < least - least / 4)
		return true;
	return plain->stored >= plain->sampled - plain->sampled / 64 &&
	       least >= 8 * scanned - 8 * scanned / 64;
}

/*
 * How many items are tried by bits: of those behind the likeliest they were the best only where
 * nothing but matches makes bytes fewer.
 */
static unsigned items_by_bits(const struct pipeline *base)
{
	bool codes = base->codec == CODEC_ZSTD || base->codec == CODEC_ZLIB;
	return codes ? 1 : ITEMS_TRIED - 1;
}

static int first_look(struct tuner *t)
{
	TRY(gather(t, PIECES, FIRST_LOOK, false));
	scan_items(t);
	TRY(try_kind(t, PLAIN, 1));
	if (t->hint.plain || filters_hopeless(t))
		return 0;
	uint64_t least = least_bits(&t->scan.item[0]);
	unsigned bits = items_by_bits(&t->goal->base);
	for (unsigned i = 0; i < t->scan.n; i++) {
		const struct tune_item *item = &t->scan.item[i];
		bool told = item->size == t->report->period || item->size == t->hint.record;
		if (told || (i < ITEMS_TRIED && least_bits(item) <= least + least / 8))
			TRY(try_item(t, item, told || i < bits));
	}
	return 0;
}

static void sort_trials(struct tune_report *r)
{
	for (unsigned i = 1; i < r->ntried; i++)
		for (unsigned k = i; k > 0 && r->tried[k].score < r->tried[k - 1].score; k--) {
			struct tune_trial swap = r->tried[k];
			r->tried[k] = r->tried[k - 1];
			r->tried[k - 1] = swap;
		}
}

static uint32_t permille(const struct tune_trial *trial)
{
	return (uint32_t)((uint64_t)trial->stored * 1000 / trial->sampled);
}

#define FINALISTS 2

/* A twentieth ahead, and far from not being worth it. Of long items a short look has too few. */
static bool clear_winner(const struct tune_report *r)
{
	uint32_t best = r->tried[0].score;
	if (r->tried[0].pipeline.typesize > 16 || r->tried[1].pipeline.typesize > 16)
		return false;
	return r->tried[1].score - best > best / 20 && permille(&r->tried[0]) < 900;
}

static bool is_delta(const struct pipeline *p)
{
	return p->filter[FILTER_SLOTS - 1] == FILTER_BYTEDELTA;
}

static bool same_filters(const struct pipeline *a, const struct pipeline *b)
{
	return a->typesize == b->typesize && !memcmp(a->filter, b->filter, FILTER_SLOTS);
}

/*
 * Puts what the one at a place is without its differences behind it, tried or not, unless it stands
 * before. Returns how many are to be looked at again.
 */
static unsigned bring_sibling(struct tuner *t, unsigned place)
{
	struct tune_report *r = t->report;
	struct tune_trial sibling = {0};
	uint32_t size = r->tried[place].pipeline.typesize;
	unsigned i = 0, next = place + 1;

	build(t->goal, size > 1 ? SHUFFLE : PLAIN, size, &sibling.pipeline);
	while (i < r->ntried && !same_filters(&r->tried[i].pipeline, &sibling.pipeline))
		i++;
	if (i < place)
		return next;
	assert(i < TUNE_TRIED_MAX);
	r->ntried += i == r->ntried;
	memmove(&r->tried[next + 1], &r->tried[next], (i - next) * sizeof *r->tried);
	r->tried[next] = sibling;
	bool other = place == 0 && r->ntried > 2 && !is_delta(&r->tried[2].pipeline);
	return next + 1 + other;
}

/* Where one with differences is among the finalists, of items that a short piece has enough of. */
static int delta_place(const struct tune_report *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (is_delta(&r->tried[i].pipeline) && r->tried[i].pipeline.typesize <= 16)
			return (int)i;
	return -1;
}

/*
 * Bytes for it. Places differ in level, which differences do not see but a table of bytes does:
 * pieces of four in one block flatter them, by up to 14 % of an image. So these are tried on longer
 * pieces, each a block of its own.
 */
static int gather_again(struct tuner *t, bool delta)
{
	if (!delta)
		return gather(t, PIECES, SECOND_LOOK, true);
	TRY(gather(t, DELTA_PIECES, DELTA_LOOK, true));
	t->block = t->gathered.n / DELTA_PIECES;
	return 0;
}

/*
 * The best ones again on other bytes, and the best one with its planes in one
 * stream where it has several: which of the two is smaller depends on how alike they are.
 */
static int second_look(struct tuner *t)
{
	struct tune_report *r = t->report;
	unsigned n = (unsigned)min_u64(r->ntried, FINALISTS);
	int delta = delta_place(r, n);
	/* Nothing to decide between; but to store all that follows takes two witnesses. */
	if (r->ntried == 1 && permille(&r->tried[0]) + worth[t->goal->aim] <= 1000)
		return 0;
	if (delta >= 0)
		n = bring_sibling(t, (unsigned)delta);
	else if (n > 1 && clear_winner(r) && !is_split(&r->tried[0].pipeline))
		return 0;
	TRY(gather_again(t, delta >= 0));
	struct pipeline joined = r->tried[0].pipeline;
	for (unsigned i = 0; i < n; i++) {
		struct pipeline p = r->tried[i].pipeline;
		TRY(try_pipeline(t, &p, &r->tried[i]));
	}
	if (is_split(&joined)) {
		joined.split_mode = SPLIT_NEVER;
		memmove(&r->tried[n + 1], &r->tried[n], (r->ntried - n) * sizeof *r->tried);
		r->ntried++;
		TRY(try_pipeline(t, &joined, &r->tried[n++]));
	}
	unsigned all = r->ntried;
	r->ntried = n;
	sort_trials(r);
	r->ntried = all;
	return 0;
}

/*
 * Where no filter helps, the codec has to do it alone: the next level saves 5 % of text and
 * code. Half as much window again saves 3 % more of text, little of code, and costs readers of
 * single blocks a third of their time.
 */
static void advise(const struct tune_goal *g, bool mixed, struct pipeline *out)
{
	if (g->aim == TUNE_SPEED)
		return;
	if (g->free_codec && out->codec == CODEC_ZSTD && out->level == 1)
		out->level = g->aim == TUNE_SIZE ? 3 : 2;
	if (g->free_blocksize && !mixed)
		out->blocksize = g->aim == TUNE_SIZE ? 128u << 10 : 96u << 10;
}

/* The first chunk of a file is the least typical: when it does not decide, the next one shall. */
static bool near_tie(const struct tune_report *r)
{
	return r->ntried > 1 && r->tried[1].score - r->tried[0].score < r->tried[0].score / 50;
}

#define HEAD 4096

/*
 * Containers of packed data (HDF5, say) begin with what they hold, in pages of pointers and zeros.
 * No sample sees them, but they are a tenth of a small file.
 */
static bool has_soft_head(const struct tune_input *in)
{
	struct tune_scan scan = {.n = 1, .item = {{.size = 1}}};
	if (in->offset || in->sample.n < HEAD)
		return false;
	tune_scan(&scan, view_part(in->sample, 0, HEAD));
	return scan.item[0].plain < 6 * HEAD; /* bits; packed data has 8 a byte */
}

/* What to do where no candidate is worth its time. */
static void give_up(const struct tune_goal *goal, const struct tune_input *in, struct pipeline *out,
		    struct tune_report *report)
{
	if (has_soft_head(in) && goal->aim != TUNE_SPEED) {
		build(goal, PLAIN, 1, out);
		report->again = 1;
		return;
	}
	out->level = 0;
	report->again = AGAIN_STORED;
}

/* From the header, or from what was known of it before. */
static struct tune_hint hint_of(const struct tune_input *in, const struct tune_report *before)
{
	if (in->head.n || !in->offset)
		return tune_head(in->head.n ? in->head : in->sample);
	return (struct tune_hint){.format = before->format,
				  .item = before->item <= TUNE_ITEM_MAX ? before->item : 0,
				  .record = before->record <= TUNE_ITEM_MAX ? before->record : 0,
				  .plain = before->plain};
}

int tune_choose(struct scratch *s, const struct tune_goal *goal, const struct tune_input *in,
		struct pipeline *out, struct tune_report *report)
{
	struct tune_hint hint = hint_of(in, report);
	struct tuner t = {
		.s = s, .goal = goal, .sample = in->sample, .report = report, .hint = hint};

	struct tune_trial before = report->tried[0];
	uint32_t patience = report->patience;

	*out = goal->base;
	*report = (struct tune_report){.format = hint.format,
				       .item = hint.item,
				       .record = hint.record,
				       .plain = hint.plain,
				       .permille = 1000,
				       .again = AGAIN};
	if (in->sample.n < 64 || !goal->base.level)
		return 0;
	report->period = tune_period(view_part(in->sample, in->sample.n / 2, in->sample.n / 2));
	TRY(first_look(&t));
	sort_trials(report);
	TRY(second_look(&t));
	const struct tune_trial *best = &report->tried[0];
	*out = best->pipeline;
	report->permille = permille(best);
	if (report->permille + worth[goal->aim] > 1000)
		give_up(goal, in, out, report);
	if (!in->offset && near_tie(report))
		report->again = min_u64(report->again, AGAIN_TIE);
	report->glance.item = best->pipeline.typesize > 1 ? best->pipeline.typesize : 4;
	tune_glance(&report->glance, in->sample);
	if (in->offset && same_filters(&before.pipeline, &best->pipeline))
		report->patience = (uint32_t)min_u64(patience + 1, PATIENCE_MAX);
	bool plain = out->typesize == 1 && !out->filter[FILTER_SLOTS - 1];
	if (plain && report->permille <= 900)
		advise(goal, hint.plain, out);
	return 0;
}

/* Whether a form is another one under this size: planes of one byte, items that are never split. */
static bool same_as_other(enum kind kind, bool joined, uint32_t size)
{
	return (kind == SHUFFLE && size == 1) || (joined && (size == 1 || !power_of_two(size)));
}

bool tune_candidate(const struct tune_goal *goal, uint32_t item, unsigned i, struct pipeline *out)
{
	const uint32_t sizes[] = {1, 2,  4,
				  8, 16, item && (item > 16 || !power_of_two(item)) ? item : 0};
	static const struct form {
		enum kind kind;
		bool joined;
	} forms[] = {{SHUFFLE, false}, {SHUFFLE, true}, {BYTEDELTA, false}, {BYTEDELTA, true},
		     {BITSHUFFLE, false}};
	enum { NFORMS = sizeof forms / sizeof *forms };

	if (i < 2) {
		build(goal, PLAIN, 1, out);
		if (i == 1)
			advise(goal, false, out);
		return true;
	}
	unsigned left = i - 2;
	for (unsigned k = 0; k < NFORMS * sizeof sizes / sizeof *sizes; k++) {
		const struct form *f = &forms[k % NFORMS];
		uint32_t size = sizes[k / NFORMS];
		if (!size || (f->joined && goal->base.codec == CODEC_ZSTD) ||
		    same_as_other(f->kind, f->joined, size) || left-- > 0)
			continue;
		build(goal, f->kind, size, out);
		if (f->joined)
			out->split_mode = SPLIT_NEVER;
		return true;
	}
	return false;
}
