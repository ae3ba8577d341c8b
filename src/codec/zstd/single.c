/*
 * The search of level 1: at each position it tries the last offset, which costs few bits, and the
 * last position with the same hash. Instantiated for four kinds of streams: short and long ones, of
 * planes (the output of a filter) and of anything else.
 */
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
#define SEARCH(name, by)                                                          \
	static __attribute__((noinline)) void name(struct scan *s, unsigned leap) \
	{                                                                         \
		find_matches(s, leap, by);                                        \
	}

SEARCH(find_near, ZSTD_NEAR)
SEARCH(find_far, ZSTD_FAR)
SEARCH(find_planes, ZSTD_PLANES)
SEARCH(find_far_planes, ZSTD_FAR_PLANES)

void zstd_find_single(struct scan *s, unsigned leap, enum zstd_search by, uint32_t bits)
{
	s->worth = worth_of(bits);
	switch (by) {
	case ZSTD_FAR: find_far(s, leap); break;
	case ZSTD_PLANES: find_planes(s, leap); break;
	case ZSTD_FAR_PLANES: find_far_planes(s, leap); break;
	default: find_near(s, leap);
	}
}
