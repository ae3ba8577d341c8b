/* The bits that an ideal order-0 coder needs (Shannon's entropy). Internal to this layer. */
#ifndef CODEC_ENTROPY_H
#define CODEC_ENTROPY_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define ENTROPY_MAX (32u << 10) /* symbols that entropy_of takes: their sums fit 32 bits */

/*
 * 4096 * log2(x), at most 34 too much or too little: the exponent of a float, and between powers
 * of two a parabola, 0.3457 * f * (1 - f) above the line, which 1416 stands for. Whole numbers
 * only, so that it is the same everywhere, and no branch, so that the compiler uses vectors. It
 * never falls where x rises, so that no entropy below is negative. 0 gives a number that does not
 * matter, since it is multiplied by 0.
 */
static inline uint32_t entropy_log2(uint32_t x)
{
	float real = (float)(int32_t)x;
	uint32_t bits;
	memcpy(&bits, &real, sizeof bits);
	uint32_t linear = (bits >> 11) - (127u << 12), f = linear & 4095;
	return linear + ((((f * (4096 - f)) >> 10) * 1416) >> 14);
}

/* The same in units of 1/256, so that the product with any count in a block of 128 KiB fits. */
static inline uint32_t entropy_log2_short(uint32_t x)
{
	return entropy_log2(x) >> 4;
}

/* The entropy of so many symbols of each value, all of them together, in 1/4096 bits. */
static inline uint32_t entropy_of(const uint32_t count[static 256])
{
	uint32_t n = 0, sum = 0;
	for (unsigned i = 0; i < 256; i++) {
		n += count[i];
		sum += count[i] * entropy_log2(count[i]);
	}
	assert(n <= ENTROPY_MAX);
	return n * entropy_log2(n) - sum;
}

/*
 * The same of up to 128 Ki symbols that have `values` values, in 1/256 bits. *distinct: how many
 * of the values occur.
 */
static inline uint32_t entropy_of_many(const uint32_t *count, unsigned values, uint32_t *distinct)
{
	uint32_t n = 0, sum = 0, occur = 0;
	for (unsigned i = 0; i < values; i++) {
		n += count[i];
		sum += count[i] * entropy_log2_short(count[i]);
		occur += count[i] > 0;
	}
	*distinct = occur;
	return n * entropy_log2_short(n) - sum;
}

/*
 * A small sample looks more regular than its source: by half a nat, 0.72 bits, for each distinct
 * symbol (Miller and Madow). In 1/256 bit; and the correction for so many symbols, in bits.
 */
#define ENTROPY_MISSED 184

static inline uint32_t entropy_missed(uint32_t symbols)
{
	return ENTROPY_MISSED * symbols / 256;
}

#endif
