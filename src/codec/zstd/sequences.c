/*
 * The sequences of a block (RFC 8878, 3.1.1.3.2): each of their three numbers is a code,
 * entropy-coded with an FSE table, and raw extra bits.
 */
#include "codec/entropy.h"
#include "codec/price.h"
#include "codec/zstd/format.h"
#include "codec/zstd/fse.h"
#include "codec/zstd/impl.h"

static const struct fse_shares predefined[ZSTD_KINDS] = {
	[ZSTD_LITERALS] = ZSTD_PREDEFINED_LITERALS,
	[ZSTD_OFFSET] = ZSTD_PREDEFINED_OFFSET,
	[ZSTD_MATCH] = ZSTD_PREDEFINED_MATCH,
};

static const unsigned log_max[ZSTD_KINDS] = ZSTD_TABLE_LOGS;

/* Extra bits of a code, and codes of small numbers: 3.1.1.3.2.1. */
static const uint8_t literals_bits[FSE_SYMBOLS] = {
	[16] = 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
};
static const uint8_t match_bits[FSE_SYMBOLS] = {
	[32] = 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
};

static const uint8_t literals_code[64] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 16, 17, 17, 18, 18, 19, 19, 20, 20, 20, 20, 21, 21, 21, 21,
	22, 22, 22, 22, 22, 22, 22, 22, 23, 23, 23, 23, 23, 23, 23, 23,
	24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24,
};

static const uint8_t match_code[128] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
	32, 32, 33, 33, 34, 34, 35, 35, 36, 36, 36, 36, 37, 37, 37, 37,
	38, 38, 38, 38, 38, 38, 38, 38, 39, 39, 39, 39, 39, 39, 39, 39,
	40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40,
	41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41,
	42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42,
	42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42,
};

/* Beyond the tables each power of two has a code: 25 for 64, 43 for 128. */
static inline unsigned code_literals(uint32_t n)
{
	return n < 64 ? literals_code[n] : bit_top(n) + 19;
}

static inline unsigned code_match(uint32_t n)
{
	return n < 128 ? match_code[n] : bit_top(n) + 36;
}

static void count_codes(const struct zstd_sequence *seq, size_t n,
			uint32_t count[ZSTD_KINDS][FSE_SYMBOLS])
{
	memset(count, 0, ZSTD_KINDS * sizeof *count);
	for (size_t i = 0; i < n; i++) {
		count[ZSTD_LITERALS][code_literals(seq[i].literals)]++;
		count[ZSTD_OFFSET][bit_top(seq[i].offset)]++;
		count[ZSTD_MATCH][code_match(seq[i].match)]++;
	}
}

static inline uint64_t low_bits(uint32_t value, unsigned n)
{
	return value & ((1u << n) - 1);
}

/*
 * The same, and computes what will be written for each sequence except the states: here no sequence
 * depends on the previous one.
 */
static void code_all(struct zstd_work *w, size_t n, uint32_t count[ZSTD_KINDS][FSE_SYMBOLS])
{
	memset(count, 0, ZSTD_KINDS * sizeof *count);
	for (size_t i = 0; i < n; i++) {
		const struct zstd_sequence s = w->sequence[i];
		unsigned literals = code_literals(s.literals), match = code_match(s.match);
		unsigned offset = bit_top(s.offset);
		unsigned nliterals = literals_bits[literals], nmatch = match_bits[match];
		uint64_t extra = low_bits(s.offset, offset) << nmatch | low_bits(s.match, nmatch);
		w->coded[i] = (struct zstd_coded){
			.extra = extra << nliterals | low_bits(s.literals, nliterals),
			.literals = (uint8_t)literals,
			.offset = (uint8_t)offset,
			.match = (uint8_t)match,
			.nextra = (uint8_t)(nliterals + nmatch + offset),
		};
		count[ZSTD_LITERALS][literals]++;
		count[ZSTD_OFFSET][offset]++;
		count[ZSTD_MATCH][match]++;
	}
}

#define FRACTION 256 /* prices of tables are in this fraction of a bit, as in entropy_of_many */
#define IMPOSSIBLE UINT32_MAX

/* The price of codes with these counts, using a table with these shares. */
static uint32_t price_with(const struct fse_shares *s, const uint32_t *count)
{
	uint32_t price = 0;
	for (unsigned i = 0; i < FSE_SYMBOLS; i++) {
		if (!count[i])
			continue;
		if (i >= s->n || !s->share[i])
			return IMPOSSIBLE;
		uint32_t share = s->share[i] < 0 ? 1 : (uint32_t)s->share[i];
		price += count[i] * (s->log * FRACTION - entropy_log2_short(share));
	}
	return price;
}

#define SYMBOL_BITS 4 /* about the least per symbol in a description */

/* A lower bound for the price with a new table: the entropy. */
static uint32_t price_own_least(const uint32_t *count)
{
	uint32_t symbols, price = entropy_of_many(count, FSE_SYMBOLS, &symbols);
	return price + ((uint32_t)price_of(TABLE_NS) + SYMBOL_BITS * symbols) * FRACTION;
}

static uint32_t price_own(const struct fse_shares *s, const uint32_t *count, size_t ndescription)
{
	return price_with(s, count) +
	       ((uint32_t)price_of(TABLE_NS) + 8 * (uint32_t)ndescription) * FRACTION;
}

static unsigned first_of(const uint32_t *count)
{
	unsigned symbol = 0;
	while (!count[symbol])
		symbol++;
	return symbol;
}

struct choice {
	unsigned mode;
	uint32_t price;
};

/* The best of the tables that need no description. `last`: the previous block's, or NULL. */
static struct choice choose_known(const struct zstd_table *last, unsigned kind,
				  const uint32_t *count, uint32_t n)
{
	struct choice c = {ZSTD_TABLE_PREDEFINED, price_with(&predefined[kind], count)};
	if (count[first_of(count)] == n && c.price > 8 * FRACTION)
		c = (struct choice){ZSTD_TABLE_RLE, 8 * FRACTION};
	/* The format allows reusing a table of one symbol, but no encoder does that. */
	if (last && last->shares.log) {
		uint32_t price = price_with(&last->shares, count);
		if (price < c.price)
			c = (struct choice){ZSTD_TABLE_REPEAT, price};
	}
	return c;
}

/* Writes extra bits. The bits of three states may be waiting, which leaves little room. */
static inline void put_extra(struct bits *b, const struct zstd_coded *c)
{
	if (__builtin_expect(b->n + c->nextra > 63, 0))
		bits_flush(b);
	bits_add(b, c->extra, c->nextra);
	bits_flush(b);
}

#define SEQUENCE_MAX 24 /* bytes touched for a sequence, and at the end */

static uint8_t *put_all(const struct zstd_known *known, const struct zstd_coded *first, size_t n,
			struct span room)
{
	/*
	 * In locals: the compiler would reload the pointers after each store, which might alias
	 * them.
	 */
	const struct fse_table *const literals = &known->table[ZSTD_LITERALS]->fse;
	const struct fse_table *const offset = &known->table[ZSTD_OFFSET]->fse;
	const struct fse_table *const match = &known->table[ZSTD_MATCH]->fse;
	struct bits b = {.out = room.p};
	const uint8_t *limit = room.p + room.n - SEQUENCE_MAX;
	const struct zstd_coded *c = &first[n - 1];
	uint32_t at_literals = fse_begin(literals, c->literals);
	uint32_t at_offset = fse_begin(offset, c->offset), at_match = fse_begin(match, c->match);
	put_extra(&b, c);
	while (c-- > first) {
		if (b.out > limit)
			return NULL;
		at_offset = fse_put(&b, offset, at_offset, c->offset);
		at_match = fse_put(&b, match, at_match, c->match);
		at_literals = fse_put(&b, literals, at_literals, c->literals);
		put_extra(&b, c);
	}
	if (b.out > limit)
		return NULL;
	fse_end(&b, match, at_match);
	fse_end(&b, offset, at_offset);
	fse_end(&b, literals, at_literals);
	return bits_end(&b);
}

/* Writes the number of sequences in one or two bytes: it is below 0x7F00 in our blocks. */
static uint8_t *put_number(uint8_t *out, size_t n)
{
	if (n >= 128)
		*out++ = (uint8_t)(128 + (n >> 8));
	*out++ = (uint8_t)n;
	return out;
}

/* A plan being made. */
struct planner {
	struct zstd_work *w;
	struct zstd_known *k;
	struct zstd_plan *p;
	uint8_t *out; /* points into the plan's head */
};

static const struct zstd_table *get_predefined(struct planner *pl, unsigned kind)
{
	struct zstd_table *t = &pl->w->predefined[kind];
	if (!(pl->w->built & 1u << kind)) {
		t->shares = predefined[kind];
		fse_build(&t->fse, &t->shares);
		pl->w->built |= 1u << kind;
	}
	return t;
}

/* A table that the previous block does not use. */
static struct zstd_table *get_free(const struct planner *pl, unsigned kind)
{
	struct zstd_table *own = pl->w->own[kind];
	return &own[pl->k->table[kind] == &own[0]];
}

static void put_one(struct planner *pl, unsigned kind, unsigned symbol)
{
	struct zstd_table *t = get_free(pl, kind);
	t->shares.log = 0;
	fse_build_one(&t->fse, symbol);
	*pl->out++ = (uint8_t)symbol;
	pl->k->table[kind] = t;
}

/* Uses a new table. False: `other` is no more expensive. */
static bool put_own(struct planner *pl, unsigned kind, const uint32_t *count, struct choice *other)
{
	struct zstd_table *t = get_free(pl, kind);
	t->shares.n = FSE_SYMBOLS;
	fse_share(&t->shares, count, (uint32_t)pl->p->n, log_max[kind]);
	uint8_t *end = fse_put_description(pl->out, &t->shares);
	uint32_t price = price_own(&t->shares, count, (size_t)(end - pl->out));
	if (price >= other->price)
		return false;
	fse_build(&t->fse, &t->shares);
	pl->k->table[kind] = t;
	pl->p->last = (size_t)(pl->out - pl->p->head);
	pl->out = end;
	*other = (struct choice){ZSTD_TABLE_COMPRESSED, price};
	return true;
}

static unsigned plan_kind(struct planner *pl, unsigned kind, const uint32_t *count)
{
	uint32_t n = (uint32_t)pl->p->n;
	struct choice c = choose_known(pl->k->table[kind], kind, count, n);
	bool alone = count[first_of(count)] == n;
	if (alone || price_own_least(count) >= c.price || !put_own(pl, kind, count, &c)) {
		if (c.mode == ZSTD_TABLE_PREDEFINED)
			pl->k->table[kind] = get_predefined(pl, kind);
		else if (c.mode == ZSTD_TABLE_RLE)
			put_one(pl, kind, first_of(count));
	}
	pl->p->price += c.price / FRACTION;
	return c.mode;
}

/* (Not const: before C23 a pointer to arrays does not convert to one to const arrays.) */
static uint64_t extra_bits(uint32_t count[ZSTD_KINDS][FSE_SYMBOLS])
{
	uint64_t bits = 0;
	for (unsigned i = 0; i < FSE_SYMBOLS; i++)
		bits += count[ZSTD_LITERALS][i] * literals_bits[i] + count[ZSTD_OFFSET][i] * i +
			count[ZSTD_MATCH][i] * match_bits[i];
	return bits;
}

uint64_t zstd_count_sequences(const struct zstd_work *w, size_t n)
{
	uint32_t count[ZSTD_KINDS][FSE_SYMBOLS];
	count_codes(w->sequence, n, count);
	uint64_t bits = extra_bits(count);
	for (unsigned kind = 0; kind < ZSTD_KINDS; kind++) {
		uint32_t symbols, entropy = entropy_of_many(count[kind], FSE_SYMBOLS, &symbols);
		bits += entropy / 256 + entropy_missed(symbols - 1);
	}
	return bits;
}

void zstd_plan_sequences(struct zstd_work *w, struct zstd_known *k, size_t n, struct zstd_plan *p)
{
	uint32_t count[ZSTD_KINDS][FSE_SYMBOLS];
	struct planner pl = {w, k, p, put_number(p->head, n)};
	p->n = n;
	p->price = 0;
	p->last = 0;
	if (n) {
		uint8_t *modes = pl.out++;
		*modes = 0;
		code_all(w, n, count);
		for (unsigned kind = 0; kind < ZSTD_KINDS; kind++)
			*modes |= (uint8_t)(plan_kind(&pl, kind, count[kind]) << (6 - 2 * kind));
		p->price += extra_bits(count);
	}
	p->nhead = (size_t)(pl.out - p->head);
}

#define LAST_MIN 4 /* bytes from the last description on; decoders before 1.3.5 reject fewer */

uint8_t *zstd_put_sequences(const struct zstd_work *w, const struct zstd_known *k,
			    const struct zstd_plan *p, struct span dst)
{
	size_t from_last = p->last ? p->nhead - p->last : LAST_MIN;
	if (dst.n < p->nhead + (p->n ? SEQUENCE_MAX : 0))
		return NULL;
	memcpy(dst.p, p->head, p->nhead);
	uint8_t *out = dst.p + p->nhead;
	if (!p->n)
		return out;
	const uint8_t *first = out;
	out = put_all(k, w->coded, p->n, span_of(out, dst.n - p->nhead));
	return out && from_last + (size_t)(out - first) < LAST_MIN ? NULL : out;
}
