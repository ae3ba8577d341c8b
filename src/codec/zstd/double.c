/*
 * The search of level 2: at each position it tries the last offset, the last position with the same
 * hash of eight bytes, and the last one with the same hash of four or five. The library's level 3
 * does the same.
 *
 * Tables hold the lower 16 bits of positions, enough for the last 64 KiB: a third of the memory
 * that the library uses, so more of it stays in the caches. More distant matches are not found;
 * there are few in blocks of the usual 96 KiB.
 */
#include "codec/zstd/scan.h"

#define LONG 8

/*
 * Tables of half the size would make text 0.4 % larger, and save 2 % of the time. A small stream
 * has few positions to remember, and its matches are near enough for four bytes to pay: with five,
 * code in blocks of 4 to 16 KiB gets 1 to 1.5 % larger.
 */
struct kind {
	unsigned shortest, log; /* bytes of the shorter hash; log of the slots of each table */
	bool judged;            /* a short match has to be worth its distance: is_worth_it */
};
static const struct kind usual = {5, ZSTD_DOUBLE_LOG, false}, small = {4, ZSTD_SMALL_LOG, false};
static const struct kind usual_judged = {5, ZSTD_DOUBLE_LOG, true};
static const struct kind small_judged = {5, ZSTD_SMALL_LOG, true};

/*
 * Enters a position; returns the distance to the previous one in its slot, 1 .. 64 KiB. An unused
 * slot is 0, which stands for the stream's first byte, or one a multiple of 64 KiB later.
 */
ALWAYS_INLINE uint32_t swap_in(uint16_t *slot, uint16_t at)
{
	uint32_t distance = (uint16_t)(at - *slot - 1) + 1u;
	*slot = at;
	return distance;
}

ALWAYS_INLINE uint32_t enter_short(const struct scan *s, const uint8_t *p,
				   const struct kind k)
{
	uint64_t hash = hash_first(p, k.shortest, k.log);
	return swap_in(&s->w->pair.by_short[hash], (uint16_t)(p - s->src));
}

ALWAYS_INLINE uint32_t enter_long(const struct scan *s, const uint8_t *p,
				  const struct kind k)
{
	uint64_t hash = hash_first(p, LONG, k.log);
	return swap_in(&s->w->pair.by_long[hash], (uint16_t)(p - s->src));
}

ALWAYS_INLINE void enter(const struct scan *s, const uint8_t *p, const struct kind k)
{
	(void)enter_short(s, p, k);
	(void)enter_long(s, p, k);
}

/* True: the eight bytes at p also occur `distance` before. */
ALWAYS_INLINE bool is_long(const uint8_t *p, uint32_t distance)
{
	return get_le64(p) == get_le64(p - distance);
}

ALWAYS_INLINE void extend_long(struct scan *s, const uint8_t *p, uint32_t distance, struct match *m)
{
	extend(s, p, p - distance, 8 + equal_wide(s, p + 8, p + 8 - distance), m);
}

/* Extends a short match at s->p; or a long one that begins one byte later, which is better. */
ALWAYS_INLINE void extend_short(struct scan *s, uint32_t distance, uint64_t differ,
			      const struct kind k, struct match *m)
{
	const uint8_t *p = s->p;
	uint32_t later = enter_long(s, p + 1, k);
	if (is_long(p + 1, later))
		extend_long(s, p + 1, later, m);
	else if (differ)
		extend(s, p, p - distance, bytes_before(differ), m);
	else
		extend_long(s, p, distance, m);
}

/*
 * Among digits, for example, five bytes repeat by chance, and are cheaper as literals. The cost of
 * a match is taken as FRESH_BITS, plus 1.5 bits for each bit of its distance; docs/SPEED.md, "Text
 * and code", has what else was tried.
 */
#define FRESH_BITS 3

ALWAYS_INLINE bool is_worth_it(const struct scan *s, uint32_t distance, uint64_t differ)
{
	uint32_t log = 32 - (uint32_t)__builtin_clz(distance);
	return !differ || bytes_before(differ) * s->bits >= 256 * FRESH_BITS + 384 * log;
}

/* False: no match begins before the stop. */
ALWAYS_INLINE bool search(struct scan *s, unsigned leap, const struct kind k, struct match *m)
{
	for (;;) {
		const uint8_t *p = s->p;
		uint32_t by_short = enter_short(s, p, k), by_long = enter_long(s, p, k);
		if (get_le32(p + 1) == get_le32(p + 1 - s->rep0)) {
			*m = repeat(s, p + 1);
			return true;
		}
		if (is_long(p, by_long)) {
			extend_long(s, p, by_long, m);
			return true;
		}
		uint64_t differ = get_le64(p) ^ get_le64(p - by_short);
		if (!(differ << (64 - 8 * k.shortest)) &&
		    (!k.judged || is_worth_it(s, by_short, differ))) {
			extend_short(s, by_short, differ, k, m);
			return true;
		}
		s->p += leap++ >> LEAP_SHIFT;
		if (s->p >= s->stop)
			return false;
	}
}

ALWAYS_INLINE void find_matches(struct scan *from, unsigned leap, const struct kind k)
{
	struct scan s = *from;
	struct match m;
	while (s.p < s.stop && search(&s, leap, k, &m)) {
		const uint8_t *at = s.p;
		put_match(&s, &m);
		if (s.p >= s.stop)
			break;
		/*
		 * Each of these saves about 0.2 %, for a hundredth of the time. All are before s.p.
		 */
		enter(&s, at + 2, k);
		enter(&s, s.p - 2, k);
		enter(&s, s.p - 1, k);
		while (s.p < s.stop && get_le32(s.p) == get_le32(s.p - s.rep1)) {
			enter(&s, s.p, k);
			put_swapped(&s);
		}
	}
	*from = s;
}

void zstd_find_double(struct scan *s, unsigned leap, enum zstd_search search)
{
	bool is_small = search == ZSTD_DOUBLE_SMALL;
	if (s->bits)
		find_matches(s, leap, is_small ? small_judged : usual_judged);
	else
		find_matches(s, leap, is_small ? small : usual);
}
