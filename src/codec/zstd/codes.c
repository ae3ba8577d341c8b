/* put_codes (kernels.h) in plain C, which is built for AVX2 and BMI2 as well. */
#include "codec/zstd/codes.h"

#define AT_ONCE 5 /* codes of 11 bits that fit between flushes, which leave up to seven */

/*
 * From the last literal to the first. Where a code goes depends on the lengths of all before it:
 * five are joined by themselves, so that only the fives wait for each other.
 */
uint8_t *zstd_put_stream(const uint64_t code[256], struct view v, struct span to)
{
	struct bits b = {.out = to.p};
	size_t i = v.n;
	if (to.n < CODES_SLACK)
		return NULL;
	const uint8_t *limit = to.p + to.n - CODES_SLACK;
	for (; i % AT_ONCE && b.out <= limit; i--) {
		put_code(&b, code[v.p[i - 1]]);
		bits_flush(&b);
	}
	for (; i && b.out <= limit; i -= AT_ONCE) {
		uint64_t joined = code[v.p[i - 1]], length = joined;
		for (unsigned k = 2; k <= AT_ONCE; k++) {
			uint64_t next = code[v.p[i - k]];
			joined = joined >> (next & 63) | next;
			length += next;
		}
		unsigned n = length & 63;
		bits_add(&b, joined >> (64 - n), n);
		bits_flush(&b);
	}
	return end_stream(&b, limit);
}

bool zstd_put_codes(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4])
{
	for (unsigned k = 0; k < 4; k++) {
		end[k] = zstd_put_stream(code, part_of_four(v, k), to);
		if (!end[k])
			return false;
		to = span_of(end[k], (size_t)(to.p + to.n - end[k]));
	}
	return true;
}
