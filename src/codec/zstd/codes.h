/*
 * The versions of put_codes (kernels.h), which writes the Huffman codes of literals, and their
 * common parts. Internal to this layer.
 */
#ifndef CODEC_ZSTD_CODES_H
#define CODEC_ZSTD_CODES_H

#include "codec/zstd/bits.h"
#include "codec/zstd/build.h"

/*
 * A Huffman code in the form that put_codes takes: its bits at the top of a word, their number in
 * the low byte. So prepending one to another takes a shift by the word itself, and an or. No bits:
 * 0.
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
 * The room that must be left after a stream, for a flush and the end mark. The versions check this
 * at different times, but with the same result.
 */
#define CODES_SLACK 16

/* The plain version, its build for AVX2, and the two builds of an AVX-512 version. */
bool zstd_put_codes(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4]);
bool zstd_put_codes_avx2(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4]);
bool zstd_put_codes_avx512bw(const uint64_t code[256], struct view v, struct span to,
			     uint8_t *end[4]);
bool zstd_put_codes_avx512vbmi(const uint64_t code[256], struct view v, struct span to,
			       uint8_t *end[4]);

/* Writes one stream of any number of literals. Returns its end; NULL: it does not fit. */
uint8_t *zstd_put_stream(const uint64_t code[256], struct view v, struct span to);

#define CODES_AT_ONCE 5 /* codes of 11 bits between flushes, which leave up to 7 bits */

/*
 * Writes the codes of all of v, from the last literal to the first; if there is too little room,
 * b->out ends up beyond the limit. Where a code goes depends on the lengths of all before it: codes
 * are first joined in groups of five, so that the dependency chain is only from group to group.
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
