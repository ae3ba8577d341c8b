#include "codec/kernels/kernels.h"
#include "codec/codecs/lz4_fast.h"
#include "codec/kernels/cpu.h"
#include "codec/entropy.h"
#include "codec/zstd/codes.h"
#include "codec/zstd/fast.h"

#include "base/bytes.h"

#include <assert.h>

/* Items per tile, whose lines stay in L1 while the planes are done one by one. */
#define TILE 256

void shuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst)
{
	for (size_t at = from; at < n; at += TILE) {
		size_t stop = n - at < TILE ? n : at + TILE;
		for (size_t j = 0; j < size; j++)
			for (size_t i = at; i < stop; i++)
				dst[j * n + i] = src[i * size + j];
	}
}

void unshuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst)
{
	for (size_t at = from; at < n; at += TILE) {
		size_t stop = n - at < TILE ? n : at + TILE;
		for (size_t j = 0; j < size; j++)
			for (size_t i = at; i < stop; i++)
				dst[i * size + j] = src[j * n + i];
	}
}

static void shuffle_c(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	shuffle_rest(size, n, 0, src, dst);
}

static void unshuffle_c(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	unshuffle_rest(size, n, 0, src, dst);
}

/*
 * Transposes eight bytes as an 8 x 8 matrix of bits: bit c of byte r moves to bit r of byte c.
 * Swaps blocks of 1, 2 and 4.
 */
static uint64_t bits_mirror(uint64_t x)
{
	uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAu;
	x ^= t ^ (t << 7);
	t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCu;
	x ^= t ^ (t << 14);
	t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0u;
	return x ^ t ^ (t << 28);
}

void bitshuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst)
{
	assert(n % 8 == 0 && from % 8 == 0);
	size_t plane = n / 8;
	for (size_t k = 0; k < size; k++)
		for (size_t g = from / 8; g < plane; g++) {
			uint64_t x = 0;
			for (size_t e = 0; e < 8; e++)
				x |= (uint64_t)src[(8 * g + e) * size + k] << (8 * e);
			x = bits_mirror(x);
			for (size_t b = 0; b < 8; b++)
				dst[(8 * k + b) * plane + g] = (uint8_t)(x >> (8 * b));
		}
}

void bitunshuffle_rest(size_t size, size_t n, size_t from, const uint8_t *src, uint8_t *dst)
{
	assert(n % 8 == 0 && from % 8 == 0);
	size_t plane = n / 8;
	for (size_t k = 0; k < size; k++)
		for (size_t g = from / 8; g < plane; g++) {
			uint64_t x = 0;
			for (size_t b = 0; b < 8; b++)
				x |= (uint64_t)src[(8 * k + b) * plane + g] << (8 * b);
			x = bits_mirror(x);
			for (size_t e = 0; e < 8; e++)
				dst[(8 * g + e) * size + k] = (uint8_t)(x >> (8 * e));
		}
}

static void bitshuffle_c(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	bitshuffle_rest(size, n, 0, src, dst);
}

static void bitunshuffle_c(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	bitunshuffle_rest(size, n, 0, src, dst);
}

static void xor_bytes_c(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *restrict dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = a[i] ^ b[i];
}

/*
 * Eight bytes at a time whatever the word: inside a register the scan takes log2(8 / word) shifts,
 * and the last word of the result, broadcast by `ones`, is the carry into the next register.
 */
static void xor_scan_c(size_t word, size_t n, const uint8_t *src, uint8_t *dst)
{
	assert(word == 1 || word == 2 || word == 4 || word == 8);
	size_t bytes = n * word, i = 0;
	unsigned bits = 8 * (unsigned)word;
	uint64_t ones = word == 8 ? 1 : ~0ull / ((1ull << bits) - 1);
	uint64_t carry = 0;
	for (; i + 8 <= bytes; i += 8) {
		uint64_t x = get_le64(src + i);
		for (unsigned s = bits; s < 64; s *= 2)
			x ^= x << s;
		x ^= carry;
		put_le64(dst + i, x);
		carry = (x >> (64 - bits)) * ones;
	}
	for (; i < bytes; i++)
		dst[i] = (uint8_t)(src[i] ^ (i < word ? 0 : dst[i - word]));
}

static void sub_bytes_c(size_t n, const uint8_t *restrict src, uint8_t *restrict dst)
{
	if (!n)
		return;
	dst[0] = src[0];
	for (size_t i = 1; i < n; i++)
		dst[i] = (uint8_t)(src[i] - src[i - 1]);
}

void sum_scan_rest(size_t n, size_t from, const uint8_t *src, uint8_t *dst)
{
	uint8_t sum = from ? dst[from - 1] : 0;
	for (size_t i = from; i < n; i++) {
		sum = (uint8_t)(sum + src[i]);
		dst[i] = sum;
	}
}

static void sum_scan_c(size_t n, const uint8_t *src, uint8_t *dst)
{
	sum_scan_rest(n, 0, src, dst);
}

static uint32_t entropy_c(const uint32_t count[256])
{
	return entropy_of(count);
}

void kernels_init(struct kernels *k, unsigned cpu)
{
	*k = (struct kernels){
		.shuffle = shuffle_c,
		.unshuffle = unshuffle_c,
		.bitshuffle = bitshuffle_c,
		.bitunshuffle = bitunshuffle_c,
		.xor_bytes = xor_bytes_c,
		.xor_scan = xor_scan_c,
		.sub_bytes = sub_bytes_c,
		.sum_scan = sum_scan_c,
		.put_codes = zstd_put_codes,
		.put_lz4 = lz4_fast,
		.put_zstd = zstd_fast,
		.estimate_zstd = zstd_estimate,
		.entropy = entropy_c,
	};
#ifdef HAVE_SSE2
	if (cpu & CPU_SSE2)
		kernels_sse2(k);
#endif
#ifdef HAVE_AVX2
	if (cpu & CPU_AVX2)
		kernels_avx2(k);
#endif
#ifdef HAVE_AVX512
	if (cpu & CPU_AVX512BW)
		kernels_avx512bw(k);
	if (cpu & CPU_AVX512VBMI)
		kernels_avx512vbmi(k);
#endif
#ifdef HAVE_NEON
	if (cpu & CPU_NEON)
		kernels_neon(k);
#endif
}
