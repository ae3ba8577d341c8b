/*
 * The first look at a chunk, on 8 KiB of it. Entropies of its bytes by their place in an item leave
 * a few item sizes out of many; the filters are tried for those.
 */
#include "codec/codec.h"
#include "codec/tune_impl.h"

#include <assert.h>

#define PIECES 4
#define PIECE (2u << 10)

/* Entropies are counted over this part of what is gathered. */
#define SCANNED (8u << 10)

/* So many of the likeliest item sizes are tried. */
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
	for (uint32_t size = 1; size <= TUNE_USUAL_MAX; size *= 2)
		add_item(&t->scan, size);
	add_item(&t->scan, t->hint.item);
	add_item(&t->scan, t->hint.record);
	add_item(&t->scan, t->report->period);
	tune_scan(&t->scan, view_part(t->gathered, 0, min_u64(SCANNED, t->gathered.n)));
	sort_items(&t->scan);
}

/* True: the header or the bytes say that this is the length of a record. */
static bool is_record(const struct tuner *t, const struct tune_item *item)
{
	return item->size == t->report->period || item->size == t->hint.record;
}

/*
 * A filter whose bytes alone look a sixth worse than its sibling's does not catch up by matches:
 * it is not tried. Nor is one that was far behind its sibling for likelier items; of records this
 * need not be true.
 */
static int try_item(struct tuner *t, const struct tune_item *item, bool bits)
{
	struct tune_report *r = t->report;
	bool record = is_record(t, item);
	bool shuffle = item->size > 1 && item->shuffled < item->delta + item->delta / 6;
	bool delta = item->delta < item->shuffled + item->shuffled / 6;
	if (shuffle && (record || !t->no_shuffle))
		TRY(try_kind(t, TUNE_KIND_SHUFFLE, item->size));
	if (delta && (record || !t->no_delta))
		TRY(try_kind(t, TUNE_KIND_BYTEDELTA, item->size));
	if (shuffle && delta && !record && !t->no_shuffle && !t->no_delta) {
		const struct tune_trial *last = &r->tried[r->ntried - 1];
		t->no_shuffle = tune_far_behind(&last[-1], last);
		t->no_delta = tune_far_behind(last, &last[-1]);
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
	bool records = t->report->period || t->hint.record; /* matches may be whole records */
	if (!records && coded < least - least / 4)
		return true;
	return plain->stored >= plain->sampled - plain->sampled / 64 &&
	       least >= 8 * scanned - 8 * scanned / 64;
}

/*
 * Of how many items bits are tried as well. Behind the likeliest item they were the best choice
 * only for codecs that save by nothing but matches.
 */
static unsigned items_by_bits(const struct pipeline *base)
{
	bool has_entropy_coder = base->codec == CODEC_ZSTD || base->codec == CODEC_ZLIB;
	return has_entropy_coder ? 1 : ITEMS_TRIED - 1;
}

int tune_first_look(struct tuner *t)
{
	TRY(tune_gather(t, PIECES, PIECE, false));
	scan_items(t);
	TRY(try_kind(t, TUNE_KIND_PLAIN, 1));
	if (t->hint.mixed || filters_hopeless(t))
		return 0;
	uint64_t least = least_bits(&t->scan.item[0]);
	unsigned nbits = items_by_bits(&t->goal->base);
	for (unsigned i = 0; i < t->scan.n; i++) {
		const struct tune_item *item = &t->scan.item[i];
		bool record = is_record(t, item);
		if (record || (i < ITEMS_TRIED && least_bits(item) <= least + least / 12))
			TRY(try_item(t, item, record || i < nbits));
	}
	return 0;
}

int tune_first_look_known(struct tuner *t, const struct tune_report *before)
{
	struct tune_report *r = t->report;

	assert(before->ntried >= TUNE_KNOWN);
	TRY(tune_gather(t, PIECES, PIECE, false));
	for (; r->ntried < TUNE_KNOWN; r->ntried++) {
		struct pipeline p = before->tried[r->ntried].pipeline;
		if (t->goal->whole && p.typesize != t->goal->whole)
			p.split_mode = SPLIT_NEVER; /* as in tune_build */
		TRY(tune_try(t, &p, &r->tried[r->ntried]));
	}
	return 0;
}
