/*
 * Shared by the match finders: the state of a search, and how its matches become literals and
 * sequences. Internal to this layer.
 */
#ifndef CODEC_ZSTD_SCAN_H
#define CODEC_ZSTD_SCAN_H

#include "codec/match.h"
#include "codec/zstd/impl.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define WIDE 32   /* bytes in a register                                                  */
#define COPIED 16 /* literals are copied this many at a time                              */
#define SHORT 32  /* shorter blocks are not searched                                      */
#define MARGIN 16 /* no match begins in this many bytes at the end of a block, so as many can be
		     compared without a bounds check */

/*
 * If nothing is found, a search moves on by leap / 64 bytes, and the leap grows by one each time.
 * In planes of numbers it begins at 96, so that soon every second byte is skipped; a match that
 * begins there is found a byte later. That costs 0.2 % in size; in other streams it would cost half
 * a percent. docs/SPEED.md, "Matches in planes", has the results for longer leaps.
 */
#define LEAP_SHIFT 6
#define LEAP_FIRST 64
#define LEAP_PLANE 96
#define LEAP_NOISE 256

/*
 * How long a match in planes must be to be taken (zstd/single.c), with a new offset and with the
 * last one.
 */
struct worth {
	unsigned fresh, repeat;           /* bytes that must be equal            */
	uint64_t fresh_mask, repeat_mask; /* masks of the first 8 of them in a word */
};

/* A search under way, in one block. */
struct scan {
	struct zstd_work *w;
	const uint8_t *src;    /* the first byte of the stream                  */
	const uint8_t *p;      /* the next position to try                      */
	const uint8_t *anchor; /* the end of the last match                     */
	const uint8_t *stop;   /* no match begins at or after this              */
	const uint8_t *end;    /* of the block, and of all matches              */
	uint32_t rep0, rep1;   /* the last offset, and the one before           */
	struct zstd_sequence *next_sequence; /* output                          */
	uint8_t *next_literal;               /* output                          */
	struct worth worth;
	uint32_t bits; /* level 2: entropy of a literal, in 1/256, if low; 0: take all matches */
};

struct match {
	const uint8_t *at;
	uint32_t offset; /* as in struct zstd_sequence */
	size_t len;
};

/*
 * equal_bytes, up to the block's end. Nearly all matches are shorter than a register: a loop over
 * words would mispredict its end each time, which takes a thirtieth of the total time.
 */
ALWAYS_INLINE size_t equal_wide(const struct scan *s, const uint8_t *p, const uint8_t *q)
{
#ifdef __AVX2__
	if (s->end - p >= WIDE) {
		__m256i a = _mm256_loadu_si256((const __m256i *)p);
		__m256i b = _mm256_loadu_si256((const __m256i *)q);
		uint32_t same = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b));
		if (~same)
			return (unsigned)__builtin_ctz(~same);
		return WIDE + equal_bytes(p + WIDE, q + WIDE, s->end);
	}
#endif
	return equal_bytes(p, q, s->end);
}

/*
 * Given `len` equal bytes at p and q, extends the match backwards, and makes its offset the last
 * one.
 */
ALWAYS_INLINE void extend(struct scan *s, const uint8_t *p, const uint8_t *q, size_t len,
			struct match *m)
{
	while (p > s->anchor && q > s->src && p[-1] == q[-1]) {
		p--;
		q--;
		len++;
	}
	s->rep1 = s->rep0;
	s->rep0 = (uint32_t)(p - q);
	*m = (struct match){p, s->rep0 + ZSTD_OFFSET_RECENT, len};
}

/* The match at p with the last offset, whose first four bytes are known to be equal. */
ALWAYS_INLINE struct match repeat(const struct scan *s, const uint8_t *p)
{
	return (struct match){p, 1, 4 + equal_wide(s, p + 4, p + 4 - s->rep0)};
}

#define LOW_BITS(x, n) ((x) & ((1u << (n)) - 1))

/* May copy more literals than there are, both from the block and into the buffer's slack. */
ALWAYS_INLINE void put_match(struct scan *s, const struct match *m)
{
	size_t n = (size_t)(m->at - s->anchor);
	if (s->end - m->at >= COPIED) {
		memcpy(s->next_literal, s->anchor, COPIED);
		for (size_t i = COPIED; i < n; i += COPIED)
			memcpy(s->next_literal + i, s->anchor + i, COPIED);
	} else {
		memcpy(s->next_literal, s->anchor, n);
	}
	s->next_literal += n;
	/* All of them fit; masking tells the compiler. */
	*s->next_sequence++ = (struct zstd_sequence){
		LOW_BITS(n, ZSTD_LENGTH_BITS),
		LOW_BITS(m->len - ZSTD_MATCH_LESS, ZSTD_LENGTH_BITS),
		LOW_BITS(m->offset, ZSTD_OFFSET_BITS),
	};
	s->p = s->anchor = m->at + m->len;
}

/*
 * Takes another match at s->p, right after the last one, with the offset before the last: swaps the
 * two.
 */
ALWAYS_INLINE void put_swapped(struct scan *s)
{
	uint32_t swap = s->rep0;
	s->rep0 = s->rep1;
	s->rep1 = swap;
	struct match m = repeat(s, s->p);
	put_match(s, &m);
}

ALWAYS_INLINE bool in_planes(const enum zstd_search by)
{
	return by == ZSTD_PLANES || by == ZSTD_FAR_PLANES;
}

/*
 * The searches of level 1 (zstd/single.c) and of level 2 (zstd/double.c). `leap`: its initial value
 * after each match. `bits`: of a literal, in 1/256.
 */
void zstd_find_single(struct scan *s, unsigned leap, enum zstd_search search, uint32_t bits);
void zstd_find_double(struct scan *s, unsigned leap, enum zstd_search search);

#endif
