/*
 * The choice itself: which candidates are tried, on what, and which one wins.
 *
 * A first look takes 8 KiB. Entropies of its bytes by their place in an item leave a few item sizes
 * out of many; their filters are tried. A second look takes other bytes, and more of them, and
 * decides between the best ones of the first, unless one of these was far ahead. Nearly all of the
 * time goes into trials (tune_try.c), so that what cannot win any more is not tried again.
 */
#include "codec/codec.h"
#include "codec/filter.h"
#include "codec/tune_impl.h"

#include <assert.h>

/*
 * How many pieces a look gathers, and of how many bytes. With 24 KiB in a second look instead of 32
 * records of 28 bytes were stored by another size, and 8 % larger.
 */
#define PIECES 4
#define FIRST_LOOK (2u << 10)
#define SECOND_LOOK (8u << 10)
#define DELTA_PIECES 2
#define DELTA_LOOK (16u << 10)

/* Entropies are counted over this part of what the first look gathers. */
#define SCANNED (8u << 10)

/* A choice holds for so many bytes; the one for a file's first chunk for less, if it was close. */
#define AGAIN (32u << 20)
#define AGAIN_TIE (1u << 20)
/* Finding out that nothing helps is cheap, but storing is cheaper. */
#define AGAIN_STORED (16u << 20)

/* How often the tolerance of a glance is doubled, once for each time that nothing came of it. */
#define PATIENCE_MAX 3

/* Less saved than this is not worth decoding for, in 1/1000 of the bytes. */
static const uint32_t worth[] = {[TUNE_BALANCED] = 30, [TUNE_SIZE] = 8, [TUNE_SPEED] = 60};

static int try_kind(struct tuner *t, enum tune_kind kind, uint32_t size)
{
	struct tune_report *r = t->report;
	struct pipeline p;
	assert(r->ntried < TUNE_TRIED_MAX);
	tune_build(t->goal, kind, size, &p);
	return tune_try(t, &p, &r->tried[r->ntried++]);
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

/* A tenth more: what is told apart by so much is not tried once more. */
static bool far_behind(const struct tune_trial *a, const struct tune_trial *best)
{
	return a->score > best->score + best->score / 10;
}

/*
 * A filter whose bytes alone look a sixth worse than its sister's does not catch up by matches. Nor
 * does one with other items that was far behind its sister with the likeliest ones; of rows of a
 * table, which are `told`, this need not be true.
 */
static int try_item(struct tuner *t, const struct tune_item *item, bool told, bool bits)
{
	struct tune_report *r = t->report;
	bool plain = item->size > 1 && item->plain < item->delta + item->delta / 6;
	bool delta = item->delta < item->plain + item->plain / 6;
	if (plain && (told || !t->no_plain))
		TRY(try_kind(t, TUNE_KIND_SHUFFLE, item->size));
	if (delta && (told || !t->no_delta))
		TRY(try_kind(t, TUNE_KIND_BYTEDELTA, item->size));
	if (plain && delta && !told && !t->no_plain && !t->no_delta) {
		const struct tune_trial *last = &r->tried[r->ntried - 1];
		t->no_plain = far_behind(&last[-1], last);
		t->no_delta = far_behind(last, &last[-1]);
	}
	return bits && item->size > 1 ? try_kind(t, TUNE_KIND_BITSHUFFLE, item->size) : 0;
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
	TRY(tune_gather(t, PIECES, FIRST_LOOK, false));
	scan_items(t);
	TRY(try_kind(t, TUNE_KIND_PLAIN, 1));
	if (t->hint.plain || filters_hopeless(t))
		return 0;
	uint64_t least = least_bits(&t->scan.item[0]);
	unsigned bits = items_by_bits(&t->goal->base);
	for (unsigned i = 0; i < t->scan.n; i++) {
		const struct tune_item *item = &t->scan.item[i];
		bool told = item->size == t->report->period || item->size == t->hint.record;
		if (told || (i < ITEMS_TRIED && least_bits(item) <= least + least / 12))
			TRY(try_item(t, item, told, told || i < bits));
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
 * before. Returns how many are to be looked at again: another one without differences too, unless
 * it is behind by more than differences are ever flattered (gather_again).
 */
static unsigned bring_sibling(struct tuner *t, unsigned place)
{
	struct tune_report *r = t->report;
	struct tune_trial sibling = {0};
	uint32_t size = r->tried[place].pipeline.typesize;
	unsigned i = 0, next = place + 1;

	enum tune_kind kind = size > 1 ? TUNE_KIND_SHUFFLE : TUNE_KIND_PLAIN;
	tune_build(t->goal, kind, size, &sibling.pipeline);
	while (i < r->ntried && !same_filters(&r->tried[i].pipeline, &sibling.pipeline))
		i++;
	if (i < place)
		return next;
	assert(i < TUNE_TRIED_MAX);
	r->ntried += i == r->ntried;
	memmove(&r->tried[next + 1], &r->tried[next], (i - next) * sizeof *r->tried);
	r->tried[next] = sibling;
	bool other = place == 0 && r->ntried > 2 && !is_delta(&r->tried[2].pipeline) &&
		     r->tried[2].score <= r->tried[0].score + r->tried[0].score / 4;
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
		return tune_gather(t, PIECES, SECOND_LOOK, true);
	TRY(tune_gather(t, DELTA_PIECES, DELTA_LOOK, true));
	t->block = t->gathered.n / DELTA_PIECES;
	return 0;
}

/* Puts the best of the first `n` first; the others stay where they are. */
static void sort_first(struct tune_report *r, unsigned n)
{
	unsigned all = r->ntried;
	r->ntried = n;
	sort_trials(r);
	r->ntried = all;
}

/* The first `n` of them once more, on what is gathered. */
static int try_again(struct tuner *t, unsigned n)
{
	struct tune_report *r = t->report;
	for (unsigned i = 0; i < n; i++) {
		struct pipeline p = r->tried[i].pipeline;
		TRY(tune_try(t, &p, &r->tried[i]));
	}
	sort_first(r, n);
	return 0;
}

/* Adds what the first `n` make of other bytes. */
static int try_more(struct tuner *t, unsigned n)
{
	struct tune_report *r = t->report;
	for (unsigned i = 0; i < n; i++) {
		struct tune_trial more, *so_far = &r->tried[i];
		TRY(tune_try(t, &so_far->pipeline, &more));
		so_far->sampled += more.sampled;
		so_far->stored += more.stored;
		so_far->score += more.score;
	}
	sort_first(r, n);
	return 0;
}

/* How many of the first `n`, the best of which is first, another piece may still put first. */
static unsigned count_rivals(const struct tune_report *r, unsigned n)
{
	unsigned rivals = 1;
	while (rivals < n && !far_behind(&r->tried[rivals], &r->tried[0]))
		rivals++;
	return rivals;
}

/*
 * Those that one long piece leaves far behind are not tried on the other one: that is half of the
 * time, and where it matters they are closer. The pieces of a small chunk are too short for that.
 */
static int try_long_pieces(struct tuner *t, unsigned n)
{
	struct view all = t->gathered;
	t->gathered = view_part(all, 0, t->block);
	TRY(try_again(t, n));
	if (t->block >= DELTA_LOOK / 2)
		n = count_rivals(t->report, n);
	t->gathered = view_part(all, t->block, all.n - t->block);
	return n > 1 ? try_more(t, n) : 0;
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
	else if (n > 1 && clear_winner(r) && !tune_splits(&r->tried[0].pipeline))
		return 0;
	TRY(gather_again(t, delta >= 0));
	struct pipeline joined = r->tried[0].pipeline;
	if (tune_splits(&joined)) {
		joined.split_mode = SPLIT_NEVER;
		memmove(&r->tried[n + 1], &r->tried[n], (r->ntried - n) * sizeof *r->tried);
		r->ntried++;
		r->tried[n++] = (struct tune_trial){.pipeline = joined};
	}
	return t->block && t->block < t->gathered.n ? try_long_pieces(t, n) : try_again(t, n);
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
		tune_build(goal, TUNE_KIND_PLAIN, 1, out);
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

/*
 * Records do not stand out in each part of a table. Where they did for the last choice, and their
 * size was the best one, it is tried again; else that part would be stored as it is.
 */
static uint32_t period_of(const struct pipeline *last)
{
	uint32_t item = last->typesize;
	return item <= TUNE_ITEM_MAX && (item > 16 || !tune_power_of_two(item)) ? item : 0;
}

/* First looks at bytes of a kind that was not seen before. */
static int look_at_all(struct tuner *t, const struct tune_input *in,
		       const struct tune_report *before)
{
	struct tune_report *r = t->report;
	struct view half = view_part(in->sample, in->sample.n / 2, in->sample.n / 2);

	r->period = tune_period(half);
	if (!r->period && in->offset)
		r->period = period_of(&before->tried[0].pipeline);
	return first_look(t);
}

/* So many of the last choice's candidates can be the best of bytes of the same kind. */
#define KNOWN 4

/* True: those candidates suffice. Where nothing helped, or little was tried, all is open. */
static bool knows_kind(const struct tune_input *in, const struct tune_report *before)
{
	return in->offset && before->ntried > KNOWN && before->permille <= 900 &&
	       tune_looks_alike(before, in->sample);
}

/* First looks at other bytes of a kind: at what was good before. */
static int look_at_known(struct tuner *t, const struct tune_report *before)
{
	struct tune_report *r = t->report;

	r->period = before->period;
	TRY(tune_gather(t, PIECES, FIRST_LOOK, false));
	for (; r->ntried < KNOWN; r->ntried++) {
		struct pipeline p = before->tried[r->ntried].pipeline;
		if (t->goal->whole && p.typesize != t->goal->whole)
			p.split_mode = SPLIT_NEVER; /* as in tune_build */
		TRY(tune_try(t, &p, &r->tried[r->ntried]));
	}
	return 0;
}

int tune_choose(struct scratch *s, const struct tune_goal *goal, const struct tune_input *in,
		struct pipeline *out, struct tune_report *report)
{
	struct tune_hint hint = hint_of(in, report);
	struct tuner t = {
		.s = s, .goal = goal, .sample = in->sample, .report = report, .hint = hint};
	struct tune_report before = *report;

	*out = goal->base;
	*report = (struct tune_report){.format = hint.format,
				       .item = hint.item,
				       .record = hint.record,
				       .plain = hint.plain,
				       .permille = 1000,
				       .again = AGAIN};
	if (in->sample.n < 64 || !goal->base.level)
		return 0;
	TRY(knows_kind(in, &before) ? look_at_known(&t, &before) : look_at_all(&t, in, &before));
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
	if (in->offset && same_filters(&before.tried[0].pipeline, &best->pipeline))
		report->patience = (uint32_t)min_u64(before.patience + 1, PATIENCE_MAX);
	bool plain = out->typesize == 1 && !out->filter[FILTER_SLOTS - 1];
	if (plain && report->permille <= 900)
		advise(goal, hint.plain, out);
	return 0;
}

/* Whether a form is another one under this size: planes of one byte, items that are never split. */
static bool same_as_other(enum tune_kind kind, bool joined, uint32_t size)
{
	return (kind == TUNE_KIND_SHUFFLE && size == 1) ||
	       (joined && (size == 1 || !tune_power_of_two(size)));
}

bool tune_candidate(const struct tune_goal *goal, uint32_t item, unsigned i, struct pipeline *out)
{
	bool unusual = item > 16 || !tune_power_of_two(item);
	const uint32_t sizes[] = {1, 2, 4, 8, 16, unusual ? item : 0};
	static const struct form {
		enum tune_kind kind;
		bool joined;
	} forms[] = {
		{TUNE_KIND_SHUFFLE, false},   {TUNE_KIND_SHUFFLE, true},
		{TUNE_KIND_BYTEDELTA, false}, {TUNE_KIND_BYTEDELTA, true},
		{TUNE_KIND_BITSHUFFLE, false},
	};
	enum { NFORMS = sizeof forms / sizeof *forms };

	if (i < 2) {
		tune_build(goal, TUNE_KIND_PLAIN, 1, out);
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
		tune_build(goal, f->kind, size, out);
		if (f->joined)
			out->split_mode = SPLIT_NEVER;
		return true;
	}
	return false;
}
