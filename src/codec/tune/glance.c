/*
 * A quick look at a chunk: is it still like the one that the choice was made for? Only the
 * entropies of a few short pieces are computed.
 */
#include "codec/filter.h"
#include "codec/scratch_impl.h"
#include "codec/tune/impl.h"

#define PIECES 8
#define PIECE 256

/* Converts bits of all pieces to 1/256 bit per byte. */
static uint32_t share_of(uint64_t bits)
{
	return (uint32_t)(bits * 256 / (PIECES * PIECE));
}

/* The advantage of the best scanned filter over the chosen one, in 1/256 bit per byte. */
static uint32_t lead_of(const struct tune_scan *scan, const struct pipeline *chosen)
{
	bool delta = tune_last_filter(chosen) == FILTER_BYTEDELTA;
	uint64_t least = UINT64_MAX, own = 0;
	for (unsigned i = 0; i < scan->n; i++) {
		const struct tune_item *item = &scan->item[i];
		least = min_u64(least, min_u64(item->shuffled, item->delta));
		if (item->size == chosen->typesize)
			own = delta ? item->delta : item->shuffled;
	}
	return own > least ? share_of(own - least) : 0;
}

#define PLACES 1024
#define PLACE 64

/*
 * Pieces of one repeated byte say little: they may be in the margins of an image. So this samples
 * 1024 places, an odd distance apart. Returns how many of them are not one repeated byte.
 */
static uint32_t count_busy(struct view v)
{
	size_t step = (v.n - PLACE) / PLACES | 1;
	uint32_t busy = 0;
	for (size_t at = 0; at < PLACES * step && at + PLACE <= v.n; at += step)
		busy += memcmp(v.p + at, v.p + at + 1, PLACE - 1) != 0;
	return busy;
}

#define USUAL 4 /* items of 1, 2, 4 and 8 bytes, besides the chosen one */

void tune_glance(const struct kernels *k, const struct pipeline *chosen, struct tune_glance *g,
		 struct view v)
{
	uint8_t bytes[PIECES * PIECE];
	struct tune_scan scan = {.n = USUAL};
	size_t unit = max_u64(16, g->item), share = v.n / PIECES;
	unsigned own = 0;

	g->lead = 0;
	g->busy = PLACES;
	memset(g->bits, 0, sizeof g->bits);
	if (share < PIECE)
		return; /* too short to tell: all such chunks look the same */
	for (size_t i = 0; i < PIECES; i++) {
		size_t at = min_u64(i * share + share / 2, v.n - PIECE);
		memcpy(bytes + i * PIECE, v.p + (at - at % unit), PIECE);
	}
	for (unsigned i = 0; i < USUAL; i++)
		scan.item[i].size = 1u << i;
	while (own < USUAL && scan.item[own].size != g->item)
		own++;
	if (own == USUAL)
		scan.item[scan.n++].size = g->item;
	tune_scan(k, &scan, view_of(bytes, sizeof bytes));
	g->bits[TUNE_BYTES] = share_of(scan.item[0].shuffled);
	g->bits[TUNE_DIFFERENCES] = share_of(scan.item[0].delta);
	g->bits[TUNE_BYTES_BY_PLACE] = share_of(scan.item[own].shuffled);
	g->bits[TUNE_DIFFERENCES_BY_PLACE] = share_of(scan.item[own].delta);
	g->lead = lead_of(&scan, chosen);
	if (memcmp(bytes, bytes + 1, sizeof bytes - 1) == 0)
		g->busy = count_busy(v);
}

#define SMALLEST 8192 /* in smaller files, few disk blocks could be saved                   */
#define STANDS_OUT 100 /* of 2,048; text, code, packed data and installed libraries have 0 to 51 */

/* True: text with blanks, like most small files. This takes a tenth of a glance's time. */
static bool is_ascii(struct view v)
{
	unsigned blanks = 0;
	for (size_t i = 0; i < v.n; i++) {
		uint8_t b = v.p[i];
		if ((b < ' ' && b != '\t' && b != '\n' && b != '\r') || b > '~')
			return false;
		blanks += b == ' ' || b == '\n';
	}
	return blanks >= v.n / 32;
}

bool tune_stands_out(struct scratch *s, struct view file)
{
	const struct pipeline plain = {.typesize = 1};
	struct tune_glance g = {.item = 4};

	/* Not the first bytes, where numbers may have a header. */
	if (file.n < SMALLEST || is_ascii(view_part(file, file.n / 2, PIECE)))
		return false;
	tune_glance(&s->kernels, &plain, &g, file);
	return g.lead >= STANDS_OUT;
}

/*
 * Chunks of one kind differ by less than this in the entropies that tell filters apart: a fifth of
 * a bit per byte, less if there are few bits, plus a sixteenth of the entropy.
 */
static uint32_t tolerance_of(uint32_t bits)
{
	return (uint32_t)min_u64(48, 16 + bits / 8) + bits / 16;
}

/*
 * The surest sign of a change is that another filter has become better. Patience does not weaken
 * it: in a file of many kinds, such as an archive, several choices in a row may be the same and the
 * next one not.
 */
#define LEAD 48

#define BUSY 64u /* out of PLACES */

static bool differs(uint32_t was, uint32_t is, uint32_t tolerance)
{
	return (was > is ? was - is : is - was) > tolerance;
}

bool tune_looks_alike(const struct tune_report *r, const struct tune_glance *now)
{
	const uint32_t *was = r->glance.bits, *is = now->bits;
	uint32_t planes_were = was[TUNE_BYTES_BY_PLACE], planes_are = is[TUNE_BYTES_BY_PLACE];
	uint32_t tolerance = tolerance_of(planes_were) << r->patience;
	if (now->lead > r->glance.lead + LEAD)
		return false;
	if (now->busy < PLACES && now->busy > r->glance.busy + (BUSY << r->patience))
		return false;
	/*
	 * That all rise or fall together means less: tolerated twice as far, if a tenth is saved.
	 */
	uint32_t common = r->permille <= TUNE_PAYS_CLEARLY ? 2 * tolerance : tolerance;
	if (differs(planes_were, planes_are, common))
		return false;
	/* Each relative to that one: compares was - planes_were with is - planes_are. */
	for (unsigned i = 0; i < TUNE_ENTROPIES; i++)
		if (differs(was[i] + planes_are, is[i] + planes_were, tolerance))
			return false;
	return true;
}

/*
 * True: a short remainder, probably at the end of the file. To choose for it would take as long as
 * to encode it, and it is mostly of the same kind. But if the choice saves nothing, it may be an
 * index.
 */
static bool is_rest(const struct tune_report *r, struct view next)
{
	return next.n < r->looked / 8 && r->permille <= TUNE_PAYS_CLEARLY;
}

bool tune_still_good(struct scratch *s, const struct tune_report *r, uint64_t since,
		     struct view next)
{
	struct tune_glance now = {.item = r->glance.item};
	if (is_rest(r, next))
		return true;
	if (since >= r->again || !r->ntried) /* without trials there is nothing to compare with */
		return false;
	tune_glance(&s->kernels, &r->tried[0].pipeline, &now, next);
	return tune_looks_alike(r, &now);
}
