/* A quick look at a chunk: is it still what the choice was made for? */
#include "codec/scratch_impl.h"
#include "codec/tune/impl.h"

#define PIECES 8
#define PIECE 256

/*
 * Entropies of bytes and their differences, by byte and by
 * the item that was chosen, in 1/256 bit a byte.
 */
void tune_glance(const struct kernels *k, struct tune_glance *g, struct view v)
{
	uint8_t bytes[PIECES * PIECE];
	struct tune_scan scan = {.n = g->item > 1 ? 2 : 1,
				 .item = {{.size = 1}, {.size = g->item}}};
	size_t unit = max_u64(16, g->item), share = v.n / PIECES;

	memset(g->bits, 0, sizeof g->bits);
	if (share < PIECE)
		return; /* too little to tell: all such chunks look the same */
	for (size_t i = 0; i < PIECES; i++) {
		size_t at = min_u64(i * share + share / 2, v.n - PIECE);
		memcpy(bytes + i * PIECE, v.p + (at - at % unit), PIECE);
	}
	tune_scan(k, &scan, view_of(bytes, sizeof bytes));
	for (unsigned i = 0; i < scan.n; i++) {
		g->bits[2 * i] = (uint32_t)(scan.item[i].shuffled * 256 / sizeof bytes);
		g->bits[2 * i + 1] = (uint32_t)(scan.item[i].delta * 256 / sizeof bytes);
	}
}

/*
 * A fifth of a bit a byte, and a sixteenth: by more than chunks of one kind differ in what tells
 * filters from each other. That all bits become more or fewer says less.
 */
#define TOLERANCE 48
#define LEVEL 1 /* as bits of the tolerance */

static bool differs(uint32_t was, uint32_t is, uint32_t tolerance)
{
	return (was > is ? was - is : is - was) > tolerance;
}

bool tune_looks_alike(const struct tune_report *r, const struct tune_glance *now)
{
	const uint32_t *was = r->glance.bits, *is = now->bits;
	uint32_t least = (uint32_t)min_u64(TOLERANCE, 16 + was[2] / 8);
	uint32_t tolerance = (least + was[2] / 16) << r->patience;
	bool saves = r->permille <= TUNE_PAYS_CLEARLY;
	if (differs(was[2], is[2], tolerance << (saves ? LEVEL : 0)))
		return false;
	for (unsigned i = 0; i < TUNE_GLANCE_MAX; i++)
		if (differs(was[i] + is[2], is[i] + was[2], tolerance))
			return false;
	return true;
}

/*
 * What is left over at the end of a file costs as much to choose for as it takes to encode, and is
 * mostly of the same kind. Where the choice saves nothing it may be an index, though.
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
	if (since >= r->again)
		return false;
	tune_glance(&s->kernels, &now, next);
	return tune_looks_alike(r, &now);
}
