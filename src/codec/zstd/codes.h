/*
 * The versions of put_codes (kernels.h), which writes the Huffman codes of literals, and what they
 * share. Internal to this layer.
 */
#ifndef CODEC_ZSTD_CODES_H
#define CODEC_ZSTD_CODES_H

#include "codec/zstd/bits.h"
#include "codec/zstd/build.h"

/*
 * A Huffman code in the form that put_codes takes: its bits at the top of a word, their number in
 * the low byte. So putting one in front of another takes a shift by the word as it is, and one or.
 * No bits: 0.
 */
static inline uint64_t code_of(uint32_t value, unsigned n)
{
	return (uint64_t)value << (63 - n) << 1 | n;
}

static inline void put_code(struct bits *b, uint64_t code)
{
	unsigned n = code & 63;
	bits_add(b, code >> (64 - n), n);
}

/*
 * How much room must be left behind a stream, for a flush and the end of the stream. The versions
 * check this at different times, but come to the same result.
 */
#define CODES_SLACK 16

/* The plain version, its build for AVX2, and the two builds of another one for AVX-512. */
bool zstd_put_codes(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4]);
bool zstd_put_codes_avx2(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4]);
bool zstd_put_codes_avx512bw(const uint64_t code[256], struct view v, struct span to,
			     uint8_t *end[4]);
bool zstd_put_codes_avx512vbmi(const uint64_t code[256], struct view v, struct span to,
			       uint8_t *end[4]);

/*
 * Writes one stream of any number of literals. Returns the byte behind it; NULL: it does not fit.
 */
uint8_t *zstd_put_stream(const uint64_t code[256], struct view v, struct span to);

#define CODES_AT_ONCE 5 /* codes of 11 bits that fit between flushes, which leave up to seven */

/*
 * Writes the codes of all of v, from the last literal to the first; b->out is beyond the limit if
 * there is too little room. Where a code goes depends on the lengths of all before it: five are
 * joined by themselves, so that only the fives wait for each other.
 */
static inline void put_literals(struct bits *b, const uint64_t code[256], struct view v,
				const uint8_t *limit)
{
	size_t i = v.n;
	for (; i % CODES_AT_ONCE && b->out <= limit; i--) {
		put_code(b, code[v.p[i - 1]]);
		bits_flush(b);
	}
	for (; i && b->out <= limit; i -= CODES_AT_ONCE) {
		uint64_t joined = code[v.p[i - 1]], length = joined;
		for (unsigned k = 2; k <= CODES_AT_ONCE; k++) {
			uint64_t next = code[v.p[i - k]];
			joined = joined >> (next & 63) | next;
			length += next;
		}
		unsigned n = length & 63;
		bits_add(b, joined >> (64 - n), n);
		bits_flush(b);
	}
}

/* Ends a stream; NULL: it is past the limit. */
static inline uint8_t *end_stream(struct bits *b, const uint8_t *limit)
{
	if (b->out > limit)
		return NULL;
	uint8_t *end = bits_end(b);
	return end > limit ? NULL : end;
}

/* The literals of stream k. */
static inline struct view part_of_four(struct view v, unsigned k)
{
	size_t each = (v.n + 3) / 4;
	return view_part(v, k * each, k < 3 ? each : v.n - 3 * each);
}

#endif
