/* A quick look at a chunk: is it still what the choice was made for? */
#include "codec/filter.h"
#include "codec/tune_impl.h"

#define PIECES 8
#define PIECE 256

/*
 * Entropies of bytes and their differences, by byte and by
 * the item that was chosen, in 1/256 bit a byte.
 */
void tune_glance(struct tune_glance *g, struct view v)
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
	tune_scan(&scan, view_of(bytes, sizeof bytes));
	for (unsigned i = 0; i < scan.n; i++) {
		g->bits[2 * i] = (uint32_t)(scan.item[i].shuffled * 256 / sizeof bytes);
		g->bits[2 * i + 1] = (uint32_t)(scan.item[i].delta * 256 / sizeof bytes);
	}
}

/* A fifth of a bit a byte, and a sixteenth: more than chunks of one kind differ by. */
#define TOLERANCE 48

bool tune_looks_alike(const struct tune_report *r, struct view v)
{
	struct tune_glance now = {.item = r->glance.item};

	tune_glance(&now, v);
	for (unsigned i = 0; i < TUNE_GLANCE_MAX; i++) {
		uint32_t was = r->glance.bits[i], is = now.bits[i];
		uint32_t off = was > is ? was - is : is - was;
		if (off > (TOLERANCE + was / 16) << r->patience)
			return false;
	}
	return true;
}

bool tune_still_good(const struct tune_report *r, uint64_t since, struct view next)
{
	return since < r->again && tune_looks_alike(r, next);
}
