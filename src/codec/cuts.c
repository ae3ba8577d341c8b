#include "codec/cuts.h"
#include "codec/entropy.h"

/* Shorter pieces do not pay for a table; shorter blocks have nothing to cut. */
#define PIECE_MIN 1024
#define BLOCK_MIN (4u << 10)

#define SAMPLED 1024 /* bytes of each unit, from everywhere in it */
#define RUNS 8

/*
 * What a piece must spare, in bits. Its tables and header take TABLE_COST; the rest is for the time
 * that both sides spend on tables, and for what the samples promise and the codec does not keep.
 * Shorter streams have to spare less, in proportion: they are samples of a choice of filters, which
 * must see in them what whole blocks will have.
 */
#define CUT_COST 1500
#define TABLE_COST 520
#define CUT_LENGTH (64u << 10) /* of a stream where CUT_COST is asked for */

static uint64_t cut_cost(size_t n)
{
	return max_u64(TABLE_COST, (uint64_t)CUT_COST * min_u64(n, CUT_LENGTH) / CUT_LENGTH);
}

/* A few parts, so that they make a piece. */
struct unit {
	uint32_t count[256];
	uint32_t bits; /* in 1/4096 */
};

static void count_bytes(struct view v, uint32_t count[static 256])
{
	for (size_t i = 0; i < v.n; i++)
		count[v.p[i]]++;
}

static void look(struct view v, struct unit *u)
{
	*u = (struct unit){0};
	if (v.n <= SAMPLED) {
		count_bytes(v, u->count);
	} else {
		for (size_t i = 0; i < RUNS; i++)
			count_bytes(view_part(v, i * (v.n / RUNS), SAMPLED / RUNS), u->count);
	}
	u->bits = entropy_of(u->count);
}

static struct unit together(const struct unit *a, const struct unit *b)
{
	struct unit u;
	for (unsigned i = 0; i < 256; i++)
		u.count[i] = a->count[i] + b->count[i];
	u.bits = entropy_of(u.count);
	return u;
}

/* What was long ago counts less, and the sums stay in their range. */
static void fade(struct unit *u)
{
	for (unsigned i = 0; i < 256; i++)
		u->count[i] /= 2;
	u->bits = entropy_of(u->count);
}

struct cuts cuts_find(struct view v, uint32_t parts)
{
	struct cuts c = {.parts = parts};
	if (parts < 2 || v.n < BLOCK_MIN || v.n / parts == 0)
		return c;
	size_t part = v.n / parts;
	uint32_t each = (uint32_t)max_u64(ceil_div(PIECE_MIN, part), ceil_div(parts, CUTS_MAX));
	size_t length = part * each, sampled = min_u64(length, SAMPLED);
	uint64_t cost = cut_cost(v.n) * 4096 * sampled / length;
	struct unit piece, next;
	uint32_t held = 1; /* units in piece */

	look(view_part(v, 0, min_u64(length, v.n)), &piece);
	for (uint32_t at = each; at < parts; at += each) {
		look(view_part(v, at * part, min_u64(length, v.n - at * part)), &next);
		struct unit both = together(&piece, &next);
		if (both.bits > piece.bits + next.bits + cost) {
			c.end[c.n++] = (uint16_t)at;
			piece = next;
			held = 1;
		} else {
			piece = both;
			held++;
		}
		if (held * SAMPLED >= ENTROPY_MAX - SAMPLED) {
			fade(&piece);
			held /= 2;
		}
	}
	c.end[c.n++] = (uint16_t)parts;
	return c;
}
