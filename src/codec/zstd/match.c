/*
 * The search of level 1: at each position it tries the last offset, which costs few bits, and the
 * last position with the same hash. Instantiated for four kinds of streams: short and long ones, of
 * planes (the output of a filter) and of anything else.
 */
#include "codec/entropy.h"
#include "codec/zstd/count.h"
#include "codec/zstd/scan.h"

/* Bytes that are hashed. With seven, planes of high entropy got up to a tenth larger. */
#define SHORTEST 6

/*
 * In planes a match is taken only if the literals that it replaces would take this many bits: FRESH
 * for a match with a new offset, REPEAT for one with the last offset. A match takes a reader as
 * long as a dozen literals, and if literals have few bits, a short match takes more bits than they
 * do. The _MAX limit the length in bytes that is demanded. Outside planes this would save readers
 * time, but cost 0.4 to 3 % in size.
 */
#define WORTH_FRESH 26
#define WORTH_REPEAT 24
#define WORTH_FRESH_MAX 16
#define WORTH_REPEAT_MAX 8

ALWAYS_INLINE bool in_planes(const enum zstd_search by)
{
	return by == ZSTD_PLANES || by == ZSTD_FAR_PLANES;
}

ALWAYS_INLINE bool is_level_2(const enum zstd_search by)
{
	return by == ZSTD_DOUBLE || by == ZSTD_DOUBLE_SMALL;
}

static void forget_pair(struct zstd_work *w, unsigned log)
{
	memset(w->pair.by_short, 0, sizeof *w->pair.by_short << log);
	memset(w->pair.by_long, 0, sizeof *w->pair.by_long << log);
}

void zstd_forget(struct zstd_work *w, enum zstd_search by)
{
	switch (by) {
	case ZSTD_NEAR: memset(w->near, 0, sizeof w->near); break;
	case ZSTD_PLANES: memset(w->plane, 0, sizeof w->plane); break;
	case ZSTD_FAR_PLANES:
	case ZSTD_FAR: memset(w->far, 0, sizeof w->far); break;
	case ZSTD_DOUBLE: forget_pair(w, ZSTD_DOUBLE_LOG); break;
	case ZSTD_DOUBLE_SMALL: forget_pair(w, ZSTD_SMALL_LOG); break;
	}
}

/* Enters p; returns the last place with its hash, or the stream's first byte if there was none. */
ALWAYS_INLINE const uint8_t *enter(const struct scan *s, const uint8_t *p,
				   const enum zstd_search by)
{
	const unsigned log = by == ZSTD_PLANES ? ZSTD_PLANE_LOG : ZSTD_HASH_LOG;
	uint64_t hash = hash_first(p, SHORTEST, log);
	uint32_t before;
	if (by == ZSTD_NEAR || by == ZSTD_PLANES) {
		uint16_t *table = by == ZSTD_PLANES ? s->w->plane : s->w->near;
		uint16_t *slot = &table[hash];
		before = *slot;
		*slot = (uint16_t)(p - s->src);
	} else {
		uint32_t *slot = &s->w->far[hash];
		before = *slot;
		*slot = (uint32_t)(p - s->src);
	}
	return s->src + before;
}

/* True: there is a match at p with an earlier offset. */
ALWAYS_INLINE bool repeats_at(const struct scan *s, const uint8_t *p, uint32_t offset,
			    const enum zstd_search by)
{
	if (!in_planes(by))
		return get_le32(p) == get_le32(p - offset);
	return !((get_le64(p) ^ get_le64(p - offset)) & s->worth.repeat_mask);
}

/* True: there is one at p with the offset to q. `differ`: the xor of their first eight bytes. */
ALWAYS_INLINE bool fresh_at(const struct scan *s, const uint8_t *p, const uint8_t *q,
			    uint64_t differ, const enum zstd_search by)
{
	if (!in_planes(by))
		return !(differ << (64 - 8 * SHORTEST));
	if (differ & s->worth.fresh_mask)
		return false;
	unsigned n = s->worth.fresh;
	return n <= 8 || get_le64(p + n - 8) == get_le64(q + n - 8);
}

/*
 * False: no match begins before the stop. With the last offset, which is cheap, four bytes will do
 * outside planes.
 */
ALWAYS_INLINE bool search(struct scan *s, unsigned leap, const enum zstd_search by,
			  struct match *m)
{
	for (;;) {
		const uint8_t *p = s->p, *q = enter(s, p, by);
		if (repeats_at(s, p + 1, s->rep0, by)) {
			*m = repeat(s, p + 1);
			return true;
		}
		uint64_t differ = get_le64(p) ^ get_le64(q);
		if (fresh_at(s, p, q, differ, by)) {
			size_t len = differ ? bytes_before(differ)
					    : 8 + equal_wide(s, p + 8, q + 8);
			extend(s, p, q, len, m);
			return true;
		}
		s->p += leap++ >> LEAP_SHIFT;
		if (s->p >= s->stop)
			return false;
	}
}

/* After a match, the offset before the last one often matches again. */
ALWAYS_INLINE void follow(struct scan *s, const enum zstd_search by)
{
	while (s->p < s->stop && repeats_at(s, s->p, s->rep1, by)) {
		(void)enter(s, s->p, by);
		put_swapped(s);
	}
}

ALWAYS_INLINE void find_matches(struct scan *from, unsigned leap, const enum zstd_search by)
{
	struct scan s = *from;
	struct match m;
	while (s.p < s.stop && search(&s, leap, by, &m)) {
		const uint8_t *at = s.p;
		put_match(&s, &m);
		if (s.p >= s.stop)
			break;
		(void)enter(&s, at + 1, by);
		(void)enter(&s, at + 2, by);
		(void)enter(&s, s.p - 2, by);
		follow(&s, by);
	}
	*from = s;
}

/* Not inlined: inside another function the loop would have fewer registers. */
#define SEARCH __attribute__((noinline))

static SEARCH void find_near(struct scan *s, unsigned leap)
{
	find_matches(s, leap, ZSTD_NEAR);
}

static SEARCH void find_far(struct scan *s, unsigned leap)
{
	find_matches(s, leap, ZSTD_FAR);
}

static SEARCH void find_planes(struct scan *s, unsigned leap)
{
	find_matches(s, leap, ZSTD_PLANES);
}

static SEARCH void find_far_planes(struct scan *s, unsigned leap)
{
	find_matches(s, leap, ZSTD_FAR_PLANES);
}

#define SAMPLED 1024 /* bytes of a block, in RUNS pieces spread over it */
#define RUNS 8
#define SAMPLED_MIN (4 * SAMPLED) /* smaller blocks are not sampled */
#define BITS_UNKNOWN (256 * 4)    /* the assumption for those             */

/* Counts a sample. False: the block is too small for that to pay. */
static bool count_some(struct view v, uint32_t count[static 256])
{
	struct zstd_counts counts;
	if (v.n < SAMPLED_MIN)
		return false;
	counts_clear(&counts, 4);
	for (size_t i = 0; i < RUNS; i++)
		counts_add(&counts, view_part(v, i * (v.n / RUNS), SAMPLED / RUNS), 4);
	counts_sum(&counts, 4, count);
	return true;
}

/* The bits per byte, in 1/256, of n bytes with these counts. */
static uint32_t bits_of(const uint32_t count[static 256], uint32_t n)
{
	return entropy_of(count) / (16 * n);
}

/* Bits per literal, in 1/256: of all bytes, and of all but the most frequent value. */
#define FEW_BITS (256 * 43 / 10)
#define OTHERS_FEW_BITS (256 * 5)

/*
 * True: level 2 weighs its matches, because literals have few bits, as in numbers written as text.
 * Code between zeros has few bits per byte, too, but many per literal; and if half of the bytes are
 * one value, matches are long. There, and in words, weighing would cost 0.1 to 2 % in size. `count`
 * is of a sample with `bits` per byte, and is modified.
 */
static bool has_few_bits(uint32_t count[static 256], uint32_t bits)
{
	uint32_t most = 0;
	for (uint32_t i = 1; i < 256; i++)
		most = count[i] > count[most] ? i : most;
	uint32_t others = SAMPLED - count[most];
	count[most] = 0;
	return bits < FEW_BITS && others >= SAMPLED / 2 && bits_of(count, others) < OTHERS_FEW_BITS;
}

static unsigned clamp(unsigned x, unsigned least, unsigned most)
{
	return x < least ? least : x > most ? most : x;
}

static struct worth worth_of(uint32_t bits)
{
	struct worth w = {
		.fresh = clamp(256 * WORTH_FRESH / (bits + 1), SHORTEST, WORTH_FRESH_MAX),
		.repeat = clamp(256 * WORTH_REPEAT / (bits + 1), 4, WORTH_REPEAT_MAX),
	};
	w.fresh_mask = ~0ull >> (w.fresh < 8 ? 64 - 8 * w.fresh : 0);
	w.repeat_mask = ~0ull >> (64 - 8 * w.repeat);
	return w;
}

static void find_by(enum zstd_search by, struct scan *s, unsigned leap)
{
	switch (by) {
	case ZSTD_NEAR: find_near(s, leap); break;
	case ZSTD_FAR: find_far(s, leap); break;
	case ZSTD_PLANES: find_planes(s, leap); break;
	case ZSTD_FAR_PLANES: find_far_planes(s, leap); break;
	case ZSTD_DOUBLE:
	case ZSTD_DOUBLE_SMALL: zstd_find_double(s, leap, by); break;
	}
}

void zstd_find(struct zstd_finder *f, struct view v, struct zstd_parts *parts)
{
	struct scan s = {.w = f->w, .src = f->src, .p = v.p + (v.p == f->src), .anchor = v.p,
			 .end = v.p + v.n, .rep0 = f->known.rep[0], .rep1 = f->known.rep[1],
			 .next_sequence = f->w->sequence, .next_literal = f->w->literals};
	uint32_t count[256], bits = f->bits;
	if (!bits && count_some(v, count)) {
		bits = bits_of(count, SAMPLED);
		if (is_level_2(f->search) && has_few_bits(count, bits))
			s.bits = bits;
	} else if (!bits) {
		bits = BITS_UNKNOWN;
	}
	parts->noise = bits > ZSTD_NOISE;
	if (v.n >= SHORT) {
		unsigned leap = in_planes(f->search) ? LEAP_PLANE : LEAP_FIRST;
		s.stop = s.end - MARGIN;
		s.worth = worth_of(bits);
		find_by(f->search, &s, parts->noise ? LEAP_NOISE : leap);
	}
	parts->nsequences = (size_t)(s.next_sequence - f->w->sequence);
	parts->literals = v;
	if (!parts->nsequences)
		return;
	bytes_copy(s.next_literal, s.anchor, (size_t)(s.end - s.anchor));
	s.next_literal += s.end - s.anchor;
	parts->literals = view_of(f->w->literals, (size_t)(s.next_literal - f->w->literals));
	f->known.rep[0] = s.rep0;
	f->known.rep[1] = s.rep1;
}
