#include "codec/cuts.h"
#include "codec/entropy.h"
#include "codec/price.h"

/* Shorter pieces are not worth a table; shorter blocks are not worth cutting. */
#define PIECE_MIN 1024
#define BLOCK_MIN (4u << 10)

/*
 * Initially about SAMPLED bytes of each piece are counted, in RUNS runs spread over it. A run is a
 * byte shorter than its share, so that all samples of a stream, should one piece end up with them,
 * fit its 16-bit counters.
 */
#define SAMPLED 1024
#define RUNS 8
#define RUN (SAMPLED / RUNS - 1)
_Static_assert(CUTS_MAX * (SAMPLED - 1) <= UINT16_MAX && RUNS * RUN < SAMPLED,
	       "counters of a piece");

/* Consecutive parts: at first just enough to be worth a table, then joined to longer pieces. */
struct piece {
	uint32_t end;         /* in parts                                         */
	uint32_t n, sampled;  /* bytes, and how many of them were counted         */
	uint64_t price;       /* in bits, including a reader's time               */
	uint64_t joined;      /* price of this and the next one joined            */
	uint16_t count[256];
};

struct pieces {
	unsigned n;
	struct piece piece[CUTS_MAX];
};

/*
 * The price of a piece, raw or coded, whichever is less. Without ENTROPY_MISSED, a cut between
 * similar pieces would seem to pay.
 */
static uint64_t price_piece(const struct piece *p)
{
	uint32_t symbols = 0, bits = p->sampled * entropy_log2_short(p->sampled);
	for (unsigned i = 0; i < 256; i++) {
		bits -= p->count[i] * entropy_log2_short(p->count[i]);
		symbols += p->count[i] > 0;
	}
	if (symbols == 1)
		return 0;
	uint64_t coded = ((uint64_t)bits + ENTROPY_MISSED * symbols) * p->n / (256ull * p->sampled);
	coded += TREE_BITS + price_of(TREE_NS + (uint64_t)p->n * LITERAL_NS);
	return min_u64(coded, 8ull * p->n);
}

static void count_bytes(struct view v, struct piece *p)
{
	p->sampled += (uint32_t)v.n;
	for (size_t i = 0; i < v.n; i++)
		p->count[v.p[i]]++;
}

static void look(struct view v, struct piece *p)
{
	*p = (struct piece){.n = (uint32_t)v.n};
	if (v.n < SAMPLED) {
		count_bytes(v, p);
		return;
	}
	for (size_t i = 0; i < RUNS; i++)
		count_bytes(view_part(v, i * (v.n / RUNS), RUN), p);
}

static void add(struct piece *p, const struct piece *next)
{
	p->end = next->end;
	p->n += next->n;
	p->sampled += next->sampled;
	p->joined = next->joined;
	for (unsigned i = 0; i < 256; i++)
		p->count[i] = (uint16_t)(p->count[i] + next->count[i]);
}

static void price_joined(struct pieces *ps, unsigned i)
{
	if (i + 1 >= ps->n)
		return;
	struct piece both = ps->piece[i];
	add(&both, &ps->piece[i + 1]);
	ps->piece[i].joined = price_piece(&both);
}

/* Finds the two neighbours that gain most by being joined. False: none gain. */
static bool find_alike(const struct pieces *ps, unsigned *at)
{
	const uint64_t block = BLOCK_BITS + price_of(BLOCK_NS);
	uint64_t most = 0;
	for (unsigned i = 0; i + 1 < ps->n; i++) {
		const struct piece *p = &ps->piece[i];
		uint64_t apart = p[0].price + p[1].price + block;
		if (apart > p->joined && apart - p->joined > most) {
			most = apart - p->joined;
			*at = i;
		}
	}
	return most;
}

static void join(struct pieces *ps, unsigned at)
{
	struct piece *p = &ps->piece[at];
	p->price = p->joined;
	add(p, p + 1);
	ps->n--;
	memmove(p + 1, p + 2, (ps->n - at - 1) * sizeof *p);
	price_joined(ps, at);
	if (at)
		price_joined(ps, at - 1);
}

static void look_at_all(struct pieces *ps, struct view v, uint32_t parts)
{
	size_t part = v.n / parts;
	uint32_t each = (uint32_t)max_u64(ceil_div(PIECE_MIN, part), ceil_div(parts, CUTS_MAX));
	for (uint32_t at = 0; at < parts; at += each) {
		struct piece *p = &ps->piece[ps->n++];
		look(view_part(v, at * part, min_u64(part * each, v.n - at * part)), p);
		p->end = (uint32_t)min_u64(at + each, parts);
		p->price = price_piece(p);
	}
	for (unsigned i = 0; i < ps->n; i++)
		price_joined(ps, i);
}

struct cuts cuts_find(struct view v, uint32_t parts)
{
	struct cuts c = {.parts = parts};
	struct pieces ps;
	unsigned at = 0;
	if (parts < 2 || v.n < BLOCK_MIN || v.n / parts == 0)
		return c;
	ps.n = 0;
	look_at_all(&ps, v, parts);
	while (find_alike(&ps, &at))
		join(&ps, at);
	for (c.n = 0; c.n < ps.n; c.n++)
		c.end[c.n] = (uint16_t)ps.piece[c.n].end;
	return c;
}

#define EVEN_MIN 512 /* fewer bytes are not representative */

struct cuts cuts_even(size_t n, uint32_t parts)
{
	struct cuts c = {.parts = parts};
	if (parts < 2 || n / parts == 0)
		return c;
	uint32_t each = (uint32_t)max_u64(ceil_div(EVEN_MIN, n / parts), ceil_div(parts, CUTS_MAX));
	for (uint32_t at = each; at < parts; at += each)
		c.end[c.n++] = (uint16_t)at;
	c.end[c.n++] = (uint16_t)parts;
	return c;
}
