/*
 * A look at a chunk. In this order:
 *
 *   look_at_all   Entropies of bytes by position in an item narrow many item sizes down to a few.
 *                 Candidates for these, and "no filter", are tried on short pieces from all over
 *                 the chunk.
 *   pick_rivals   Those that can still win are brought to the front of the list, and with them
 *                 some that short pieces wrong.
 *   try_rivals    These are tried on longer pieces, or on short ones from more places.
 *   try_records   Long records are tried on the longest pieces.
 *
 * Short pieces mislead in three ways. Differences (bytedelta) look better than they are, so one of
 * them wins only after a trial, on long pieces, of its sibling without differences. Whether planes
 * are better coded as separate streams or joined in one depends on their similarity, so the best
 * candidate is tried both ways. And "no filter" lacks its distant matches.
 */
#include "codec/codec.h"
#include "codec/encoder.h"
#include "codec/filter.h"
#include "codec/scratch_impl.h"
#include "codec/tune/impl.h"

#include <assert.h>

/*
 * Codecs that can estimate need a smaller sample than those that have to encode it. Results for
 * other numbers and lengths of pieces: docs/SPEED.md, "Tried for choosing, and not kept".
 */
static const struct tune_pieces estimated_short = {8, 1u << 10, 64};
static const struct tune_pieces estimated_long = {1, 8u << 10, 16};
static const struct tune_pieces estimated_many = {8, 2u << 10, 64};
static const struct tune_pieces coded_short = {4, 2u << 10, 64}, coded_long = {2, 16u << 10, 32};
static const struct tune_pieces record_first = {8, 2u << 10, 32}, record_long = {8, 16u << 10, 32};

/* How many of the likeliest item sizes are tried. */
#define ITEMS_TRIED 3

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
	return min_u64(item->shuffled, item->delta);
}

/* Best first; ties go to the smaller item. */
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
	for (uint32_t size = 1; size <= TUNE_USUAL_MAX; size *= 2)
		add_item(&t->scan, size);
	add_item(&t->scan, t->report->hint.item);
	add_item(&t->scan, t->report->hint.record);
	add_item(&t->scan, t->report->period);
	t->scanned = view_part(t->gathered, 0, t->gathered.n - t->gathered.n / 2);
	tune_scan(&t->s->kernels, &t->scan, t->scanned);
	t->decimals = tune_are_decimals(t->scanned, 8);
	sort_items(&t->scan);
}

/* True: by the header or the period of the bytes, this is the length of a record. */
static bool is_record(const struct tuner *t, const struct tune_item *item)
{
	return item->size == t->report->period || item->size == t->report->hint.record;
}

/* With fewer stored bytes per 1000 than this, some samples may be empty. */
#define SPARSE 125

/* True: below one bit per byte, where matches decide, which entropies do not show. */
static bool is_sparse(const struct tuner *t)
{
	return least_bits(&t->scan.item[0]) < t->scanned.n ||
	       tune_permille(&t->report->tried[0]) < SPARSE;
}

/* Which of the two was far behind the other for likelier items. */
struct behind {
	bool shuffle, delta;
};

/*
 * A filter whose entropy is a sixth worse than its sibling's does not catch up by matches, and is
 * not tried. Nor is one that was far behind its sibling before, except for records.
 */
static int try_item(struct tuner *t, const struct tune_item *item, bool bits,
		    struct behind *behind)
{
	struct tune_report *r = t->report;
	bool record = is_record(t, item), all = is_sparse(t);
	bool shuffle = item->size > 1 &&
		       (all || item->shuffled < item->delta + item->delta / 6);
	bool delta = all || item->delta < item->shuffled + item->shuffled / 6;
	if (shuffle && (record || !behind->shuffle))
		TRY(try_kind(t, TUNE_KIND_SHUFFLE, item->size));
	if (delta && (record || !behind->delta))
		TRY(try_kind(t, TUNE_KIND_BYTEDELTA, item->size));
	if (shuffle && delta && !record && !behind->shuffle && !behind->delta) {
		const struct tune_trial *last = &r->tried[r->ntried - 1];
		behind->shuffle = tune_far_behind(&last[-1], last);
		behind->delta = tune_far_behind(last, &last[-1]);
	}
	/* Sparse bytes cost at least a bit each, bits may cost less: masks, one-hot rows. */
	bits = all || (bits && item->size > 1);
	return bits ? try_kind(t, TUNE_KIND_BITSHUFFLE, item->size) : 0;
}

/* The bits that the scanned bytes would take without a filter, but with matches. */
static uint64_t plain_bits(const struct tuner *t)
{
	const struct tune_trial *plain = &t->report->tried[0];
	return 8 * (uint64_t)plain->stored * t->scanned.n / plain->sampled;
}

/* The bits that they would take without matches, too. */
static uint64_t byte_bits(const struct tuner *t)
{
	unsigned i = 0;
	while (t->scan.item[i].size != 1)
		i++;
	return t->scan.item[i].shuffled;
}

/* True: matches save more than a tenth of that. */
static bool is_wordy(const struct tuner *t)
{
	uint64_t alone = byte_bits(t);
	return plain_bits(t) < alone - alone / 10;
}

/* True: the bytes are random: neither matches nor positions help. */
static bool filters_hopeless(const struct tuner *t)
{
	uint64_t least = least_bits(&t->scan.item[0]), all = 8 * t->scanned.n;
	return plain_bits(t) >= all - all / 64 && least >= all - all / 64;
}

/* True: the codec has an entropy coder, not only matches. */
static bool has_entropy_coder(const struct pipeline *base)
{
	return base->codec == CODEC_ZSTD || base->codec == CODEC_ZLIB;
}

/*
 * For how many item sizes bitshuffle is tried as well. Beyond the likeliest it was the best choice
 * only for codecs without an entropy coder.
 */
static unsigned items_by_bits(const struct pipeline *base)
{
	return has_entropy_coder(base) ? 1 : ITEMS_TRIED - 1;
}

/* True: the likeliest item size is that of the header, or of the last choice: no other is tried. */
static bool is_certain(const struct tuner *t)
{
	uint32_t size = t->scan.item[0].size;
	bool known = size == t->report->hint.item || (size > 1 && size == t->before);
	return known && !is_sparse(t);
}

static int try_bits(struct tuner *t, uint32_t size)
{
	const struct tune_report *r = t->report;
	for (unsigned i = 0; i < r->ntried; i++)
		if (tune_last_filter(&r->tried[i].pipeline) == FILTER_BITSHUFFLE &&
		    r->tried[i].pipeline.typesize == size)
			return 0;
	return try_kind(t, TUNE_KIND_BITSHUFFLE, size);
}

/*
 * In bytes with few values, such as digits and commas or letters of genes, some bits never change
 * and others rarely do, which the entropy of bytes does not show. A codec without an entropy coder
 * finds no matches in digits, and can only save such bits: up to the 4 bits of hexadecimal digits;
 * words have more.
 */
static int try_bits_of_bytes(struct tuner *t)
{
	unsigned most = has_entropy_coder(&t->goal->base) ? 9 : 17; /* in 1/4 bit */
	return 4 * byte_bits(t) > most * t->scanned.n ? 0 : try_bits(t, 1);
}

/*
 * The bytes above a small number repeat its sign: in bit planes that is coded once, and then by
 * matches. Entropies of bytes count it in each byte.
 */
static int try_bits_of_signed(struct tuner *t)
{
	uint32_t size = tune_signed(t->scanned);
	t->has_signs = size > 0;
	return size ? try_bits(t, size) : 0;
}

/* True: all filters that were tried are more than a quarter worse than none. */
static bool is_behind_plain(const struct tune_report *r)
{
	uint64_t least = UINT64_MAX;
	for (unsigned i = 1; i < r->ntried; i++)
		least = min_u64(least, r->tried[i].score);
	return r->ntried > 1 && 4 * least > 5 * (uint64_t)r->tried[0].score;
}

/*
 * For text, if the likeliest item is far worse than no filter, no other item is tried, and
 * bitshuffle only for records or few values.
 */
static int try_filters(struct tuner *t)
{
	const struct tune_report *r = t->report;
	uint64_t least = least_bits(&t->scan.item[0]);
	unsigned nbits = items_by_bits(&t->goal->base);
	unsigned nlikely = is_certain(t) ? 1 : ITEMS_TRIED;
	bool text = tune_is_text(t->gathered);
	struct behind behind = {false, false};
	for (unsigned i = 0; i < t->scan.n; i++) {
		const struct tune_item *item = &t->scan.item[i];
		bool record = is_record(t, item);
		bool likely = least_bits(item) <= least + least / 12 || is_sparse(t);
		if (record || (i < nlikely && likely && !(text && is_behind_plain(r))))
			TRY(try_item(t, item, record || (i < nbits && !text), &behind));
	}
	TRY(try_bits_of_signed(t));
	return try_bits_of_bytes(t);
}

/* Tries all candidates that may help, and sorts them. */
static int look_at_all(struct tuner *t)
{
	struct tune_report *r = t->report;
	TRY(tune_gather(t, tune_can_estimate(t) ? &estimated_short : &coded_short,
			TUNE_FIRST_PLACES));
	scan_items(t);
	TRY(try_kind(t, TUNE_KIND_PLAIN, 1));
	t->wordy = is_wordy(t);
	if (!filters_hopeless(t))
		TRY(try_filters(t));
	tune_sort(r->tried, r->ntried);
	t->little = tune_permille(&r->tried[0]) >= TUNE_PAYS_CLEARLY;
	return 0;
}

static bool is_delta(const struct tune_trial *trial)
{
	return tune_last_filter(&trial->pipeline) == FILTER_BYTEDELTA;
}

/* True: items are so long that a short look shows too few. */
static bool has_long_items(const struct tune_trial *trial)
{
	return trial->pipeline.typesize > TUNE_USUAL_MAX;
}

/*
 * How many to look at again: the best, and the next unless it is clearly worse, by a twentieth, or
 * by a quarter if both are sparse.
 */
static unsigned count_rivals(const struct tune_report *r)
{
	const struct tune_trial *best = &r->tried[0], *next = &r->tried[1];
	if (r->ntried < 2)
		return 1;
	uint32_t enough = best->score / (tune_permille(best) < SPARSE ? 4 : 20);
	bool clear = next->score - best->score > enough && !has_long_items(best) &&
		     !has_long_items(next);
	return clear ? 1 : 2;
}

/* The first of the `n` best that has differences; n: none has. */
static unsigned find_delta(const struct tune_report *r, unsigned n)
{
	unsigned i = 0;
	while (i < n && !is_delta(&r->tried[i]))
		i++;
	return i;
}

/*
 * If one of the `n` best has differences, appends its sibling without them, unless that is among
 * the `n`. Returns how many to look at again.
 */
static unsigned bring_sibling(struct tuner *t, unsigned n)
{
	struct tune_report *r = t->report;
	struct tune_trial sibling = {0};
	unsigned place = find_delta(r, n), i = 0;
	if (place == n)
		return n;
	uint32_t size = r->tried[place].pipeline.typesize;
	enum tune_kind kind = size > 1 ? TUNE_KIND_SHUFFLE : TUNE_KIND_PLAIN;
	tune_build(t->goal, kind, size, &sibling.pipeline);
	while (i < r->ntried && !tune_same_filters(&r->tried[i].pipeline, &sibling.pipeline))
		i++;
	if (i < n)
		return n;
	tune_bring(r, sibling, i, n);
	return n + 1;
}

/*
 * Where matches save a lot without a filter, distant ones, which short pieces do not have, may as
 * well: then "no filter" is looked at again, too. It also allows the next level, which saves a
 * twentieth of text and code.
 */
static unsigned bring_plain(struct tuner *t, unsigned n)
{
	struct tune_report *r = t->report;
	unsigned i = tune_place_of_plain(r);
	if (i < n || !t->wordy)
		return n;
	tune_bring(r, r->tried[i], i, n);
	return n + 1;
}

/*
 * Puts the best candidate, with its planes joined in one stream, at index `n`, unless it has one
 * stream already.
 */
static unsigned bring_joined(struct tune_report *r, unsigned n)
{
	struct tune_trial joined = {.pipeline = r->tried[0].pipeline};
	if (!encoder_splits(&joined.pipeline))
		return n;
	joined.pipeline.split_mode = SPLIT_NEVER;
	tune_bring(r, joined, r->ntried, n);
	return n + 1;
}

/* Brings those to look at again to the front, the best first. Returns their number. */
static unsigned pick_rivals(struct tuner *t)
{
	unsigned n = count_rivals(t->report);
	n = bring_sibling(t, n);
	n = bring_joined(t->report, n);
	return bring_plain(t, n);
}

/* How the result of another trial counts: added to the earlier ones, or replacing them. */
enum scores { ADDED, ANEW };

/* Tries the first `n` on the gathered bytes. */
static int try_gathered(struct tuner *t, unsigned n, enum scores scores)
{
	struct tune_report *r = t->report;
	for (unsigned i = 0; i < n; i++) {
		struct tune_trial before = r->tried[i], *now = &r->tried[i];
		TRY(tune_try(t, &before.pipeline, now));
		if (scores == ANEW)
			continue;
		now->sampled += before.sampled;
		now->stored += before.stored;
		now->score += before.score;
	}
	tune_sort(r->tried, n);
	return 0;
}

/*
 * Gathers pieces of which each is a block of its own. One part of an image may be darker than
 * another. Differences are not affected, but plain bytes of both parts in one block need a wider
 * table: so short pieces, put together in one block, make differences look better than they are, by
 * up to 14 % of an image. If differences are among the candidates, the results of short pieces are
 * dropped (ANEW).
 */
static int gather_blocks(struct tuner *t, const struct tune_pieces *pieces)
{
	TRY(tune_gather(t, pieces, TUNE_OTHER_PLACES));
	t->block = t->gathered.n / pieces->n;
	return 0;
}

static int try_blocks(struct tuner *t, const struct tune_pieces *pieces, unsigned n,
		      enum scores scores)
{
	TRY(gather_blocks(t, pieces));
	return try_gathered(t, n, scores);
}

/* True: one of the numbers is more than 1.5 times the other. */
static bool far_apart(uint32_t a, uint32_t b)
{
	return 2 * max_u64(a, b) > 3 * min_u64(a, b);
}

/* True: the best two differ by less than a hundredth: one place cannot decide. */
static bool is_tie(const struct tune_report *r)
{
	return r->tried[1].score - r->tried[0].score < r->tried[0].score / 100;
}

/*
 * True: in `led`, the earlier and sorted results, the present best was more than a fortieth behind.
 * Not for records, which short pieces do not favour anyway.
 */
static bool is_overturned(const struct tune_trial *led, const struct tune_trial *best)
{
	unsigned i = 0;
	while (!tune_same_filters(&led[i].pipeline, &best->pipeline))
		i++;
	return tune_is_usual(best->pipeline.typesize) &&
	       led[i].score - led[0].score > led[0].score / 40;
}

/*
 * One place of a chunk may be unlike all others: the header of a second image, zeros between rows,
 * one of two consecutive columns. Then short pieces decide, from other places than before, each as
 * a block of its own; so they do if that place alone would decide by a small margin.
 */
static int try_one_place(struct tuner *t, unsigned n, enum scores scores)
{
	struct tune_report *r = t->report;
	struct tune_trial led[TUNE_TRIED_MAX];
	memcpy(led, r->tried, n * sizeof *led);
	TRY(try_blocks(t, &estimated_long, n, scores));
	bool unlike = far_apart(tune_permille(&led[0]), tune_permille(&r->tried[0])) ||
		      is_overturned(led, &r->tried[0]);
	bool alone = scores == ANEW && n > 1 && is_tie(r);
	return unlike || alone ? try_blocks(t, &estimated_many, n, ANEW) : 0;
}

/*
 * Moves records with at most twice the size of the best right after that. Returns their number, the
 * best included.
 */
static unsigned bring_records(struct tune_report *r)
{
	uint32_t most = 2 * tune_permille(&r->tried[0]);
	unsigned n = 1;
	for (unsigned i = 1; i < r->ntried; i++)
		if (has_long_items(&r->tried[i]) && tune_permille(&r->tried[i]) <= most)
			tune_bring(r, r->tried[i], i, n++);
	return n;
}

/* How many of the first `n`, which are sorted, are less than 1 / `part` worse than the best. */
static unsigned count_near(const struct tune_report *r, unsigned n, uint32_t part)
{
	const struct tune_trial *best = &r->tried[0];
	unsigned near = 1;
	while (near < n && r->tried[near].score - best->score < best->score / part)
		near++;
	return near;
}

/*
 * Tries the first `n` on every other one of the longest pieces, and those still close on the rest.
 * For text all pieces count, since the results are then compared with no filter.
 */
static int try_long_records(struct tuner *t, unsigned n)
{
	TRY(gather_blocks(t, &record_long));
	struct view all = t->gathered;
	size_t half = record_long.n / 2 * t->block;
	t->gathered = view_part(all, 0, half);
	TRY(try_gathered(t, n, ANEW));
	if (!tune_is_text(all))
		n = count_near(t->report, n, 16);
	if (n == 1)
		return 0;
	t->gathered = view_from(all, half);
	return try_gathered(t, n, ADDED);
}

/*
 * Short pieces each start at a different phase: if records are not contiguous, as in pages of a
 * database, their columns get mixed, and there is little of each column.
 */
static int try_records(struct tuner *t)
{
	struct tune_report *r = t->report;
	unsigned n = bring_records(r);
	if (n == 1)
		return 0;
	TRY(try_blocks(t, &record_first, n, ANEW));
	n = count_near(r, n, 4);
	return n > 1 ? try_long_records(t, n) : 0;
}

/*
 * Tries the first `n` on longer pieces, or at more places. With n == 1 there is nothing to decide;
 * but that little is saved at all is not believed after one look.
 */
static int try_rivals(struct tuner *t, unsigned n)
{
	const struct tune_trial *best = &t->report->tried[0], *next = &t->report->tried[1];
	if (n == 1 && !t->little)
		return 0;
	if (t->little || !tune_can_estimate(t) || has_long_items(best) || has_long_items(next))
		return try_blocks(t, &coded_long, n, ANEW);
	return try_one_place(t, n, find_delta(t->report, n) < n ? ANEW : ADDED);
}

int tune_look(struct tuner *t)
{
	TRY(look_at_all(t));
	TRY(try_rivals(t, pick_rivals(t)));
	return try_records(t);
}
