#include "codec/codecs/lz4_fast.h"
#include "codec/codecs/lz4_format.h"
#include "codec/match.h"

/* Built twice, since it gains by bit manipulation instructions. */
#ifndef LZ4_FAST
#define LZ4_FAST lz4_fast
#endif

#define NEAR_MAX (64u << 10) /* the longest stream whose positions fit 16 bits */

#define SHORTEST 5u

/* In longer streams, a match of five bytes after this many literals is not worth a sequence. */
#define LITERALS_WORTH 20

/*
 * The first step of a search in 64ths of a byte, which grows by one each time nothing is found. At
 * level 5, where the library starts with steps of five bytes, it is a little over three, and a
 * little under four in long streams; steps of exactly four would be bad for items of four and eight
 * bytes.
 */
static unsigned first_leap(int level, bool near)
{
	return 64 + (near ? 36 : 45) * (unsigned)(9 - level);
}

#define LEAP_SHIFT 6

/*
 * After a match a search goes on with the step that it had, less a quarter of a byte: where matches
 * were rare, they will remain so. But no more than two bytes above the first step are kept, since
 * better planes may follow.
 */
#define LEAP_KEPT 128
#define LEAP_LESS 16

ALWAYS_INLINE unsigned leap_after_match(unsigned leap, unsigned first)
{
	unsigned kept = (unsigned)min_u64(leap, first + LEAP_KEPT);
	return (unsigned)max_u64(kept - LEAP_LESS, first);
}

struct writer {
	const uint8_t *lit; /* first byte not written yet */
	uint8_t *out, *out_end;
};

struct match {
	const uint8_t *at, *from;
	size_t len;
};

/*
 * Enters p and returns the last position with its hash, or the first byte of the stream if there
 * was none.
 */
ALWAYS_INLINE const uint8_t *enter(struct lz4_table *t, const uint8_t *src, const uint8_t *p,
				   const bool near)
{
	uint32_t before;
	if (near) {
		uint16_t *slot = &t->near[hash_first(p, SHORTEST, LZ4_NEAR_LOG)];
		before = *slot;
		*slot = (uint16_t)(p - src);
	} else {
		uint32_t *slot = &t->far[hash_first(p, SHORTEST, LZ4_FAR_LOG)];
		before = *slot;
		*slot = (uint32_t)(p - src);
	}
	return src + before;
}

/*
 * True: at least SHORTEST bytes at p and q are equal, and *m is the match. p must not be near the
 * end.
 */
ALWAYS_INLINE bool match_at(const uint8_t *p, const uint8_t *q, const uint8_t *end, const bool near,
			    struct match *m)
{
	uint64_t differ = get_le64(p) ^ get_le64(q);
	if (differ << (64 - 8 * SHORTEST))
		return false;
	if (!near && (size_t)(p - q) > LZ4_DISTANCE_MAX)
		return false;
	*m = (struct match){p, q, 8};
	if (differ)
		m->len = bytes_before(differ);
	else
		m->len += equal_bytes(p + 8, q + 8, end);
	/* A run of one byte: most decoders are much faster with distance 1. */
	if (p - q <= 8 && get_le64(p) == get_le64(p - 1))
		m->from = p - 1;
	return true;
}

/*
 * Literals before a match may belong to it. Eight are compared at once; more are rare, and not
 * looked for where impossible.
 */
ALWAYS_INLINE void extend_back(struct match *m, const uint8_t *lit, const uint8_t *src)
{
	const uint8_t *p = m->at, *q = m->from;
	size_t room = min_u64((size_t)(p - lit), (size_t)(q - src)), n = 0;
	bool more = true;
	if (q - src >= 8) {
		uint64_t differ = get_le64(p - 8) ^ get_le64(q - 8);
		more = !differ;
		n = differ ? (unsigned)__builtin_clzll(differ) / 8 : 8;
		n = n < room ? n : room;
	}
	if (__builtin_expect(more, 0))
		while (n < room && p[-1 - (ptrdiff_t)n] == q[-1 - (ptrdiff_t)n])
			n++;
	*m = (struct match){p - n, q - n, m->len + n};
}

ALWAYS_INLINE bool put(struct writer *w, const struct match *m)
{
	uint8_t *out =
		lz4_put_sequence(w->out, w->out_end, view_of(w->lit, (size_t)(m->at - w->lit)),
				 m->len, (size_t)(m->at - m->from));
	w->out = out;
	w->lit = m->at + m->len;
	return out;
}

ALWAYS_INLINE bool encode(struct lz4_table *t, struct writer *w, unsigned first, struct view src,
			  const bool near)
{
	const uint8_t *p = src.p + 1, *end = src.p + src.n - LZ4_LAST_LITERALS;
	const uint8_t *stop = src.p + src.n - LZ4_COPY_MARGIN;
	struct match m;
	unsigned leap = first;
	while (p < stop) {
		while (!match_at(p, enter(t, src.p, p, near), end, near, &m)) {
			p += leap++ >> LEAP_SHIFT;
			if (p >= stop)
				return true;
		}
		extend_back(&m, w->lit, src.p);
		if (!near && m.len == SHORTEST && (size_t)(m.at - w->lit) >= LITERALS_WORTH) {
			p += 2;
			continue;
		}
		do {
			if (!put(w, &m))
				return false;
			p = w->lit;
			if (p >= stop)
				return true;
			(void)enter(t, src.p, p - 2, near);
		} while (match_at(p, enter(t, src.p, p, near), end, near, &m));
		p++;
		leap = leap_after_match(leap, first);
	}
	return true;
}

static bool encode_near(struct lz4_table *t, struct writer *w, unsigned first, struct view src)
{
	memset(t->near, 0, sizeof t->near);
	return encode(t, w, first, src, true);
}

static bool encode_far(struct lz4_table *t, struct writer *w, unsigned first, struct view src)
{
	memset(t->far, 0, sizeof t->far);
	return encode(t, w, first, src, false);
}

ssize_t LZ4_FAST(struct lz4_table *t, int level, struct view src, struct span dst)
{
	struct writer w = {src.p, dst.p, dst.p + dst.n};
	bool near = src.n <= NEAR_MAX;
	if (src.n < LZ4_COPY_MARGIN + 1)
		return 0;
	if (!(near ? encode_near : encode_far)(t, &w, first_leap(level, near), src))
		return 0;
	uint8_t *out =
		lz4_put_last(w.out, w.out_end, view_of(w.lit, (size_t)(src.p + src.n - w.lit)));
	return out ? out - dst.p : 0;
}
