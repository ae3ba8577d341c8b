/* The bits that an ideal order-0 coder needs (Shannon's entropy). Internal to this layer. */
#ifndef CODEC_ENTROPY_H
#define CODEC_ENTROPY_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define ENTROPY_MAX (32u << 10) /* the most symbols for entropy_of: sums fit 32 bits */

/*
 * 4096 * log2(x), with an error of at most 34: the exponent of a float, and between powers of two a
 * parabola, 0.3457 * f * (1 - f) above the line (0.3457 * 4096 = 1416). In integers, so that it is
 * the same everywhere, and without branches, so that the compiler vectorises it. It is monotonic,
 * so no entropy below is negative. The result for 0 does not matter, since it is multiplied by 0.
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

/* The total entropy of symbols with these counts, in 1/4096 bit. */
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
 * The same for up to 128 Ki symbols with `values` values, in 1/256 bit. *distinct: how many of the
 * values occur.
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
 * symbol (Miller and Madow). In 1/256 bit; the function returns the correction for `symbols`
 * distinct symbols, in bits.
 */
#define ENTROPY_MISSED 184

static inline uint32_t entropy_missed(uint32_t symbols)
{
	return ENTROPY_MISSED * symbols / 256;
}

#endif
