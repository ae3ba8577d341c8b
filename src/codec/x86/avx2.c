#include "codec/kernels.h"

#include <immintrin.h>
#include <string.h>

#define VEC __m256i
#define VB 32
#define SUFFIX(name) name##_avx2
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), (v))
#define LOAD2(p, gap) _mm256_loadu2_m128i((const __m128i *)((p) + (gap)), (const __m128i *)(p))
#define STORE2(p, gap, v) _mm256_storeu2_m128i((__m128i *)((p) + (gap)), (__m128i *)(p), (v))
#define LANE(v, l) ((l) ? _mm256_extracti128_si256((v), 1) : _mm256_castsi256_si128(v))
#define UNPACK_LO8(a, b) _mm256_unpacklo_epi8((a), (b))
#define UNPACK_HI8(a, b) _mm256_unpackhi_epi8((a), (b))
#define GATHER gather
#define LO unpack_lo
#define HI unpack_hi

static inline __attribute__((always_inline)) __m256i unpack_lo(__m256i a, __m256i b, const int w)
{
	return w == 8	? _mm256_unpacklo_epi64(a, b)
	       : w == 4 ? _mm256_unpacklo_epi32(a, b)
	       : w == 2 ? _mm256_unpacklo_epi16(a, b)
			: _mm256_unpacklo_epi8(a, b);
}

static inline __attribute__((always_inline)) __m256i unpack_hi(__m256i a, __m256i b, const int w)
{
	return w == 8	? _mm256_unpackhi_epi64(a, b)
	       : w == 4 ? _mm256_unpackhi_epi32(a, b)
	       : w == 2 ? _mm256_unpackhi_epi16(a, b)
			: _mm256_unpackhi_epi8(a, b);
}

static inline __attribute__((always_inline)) __m256i gather(__m256i v, const int s)
{
	if (s == 16)
		return v;
	const __m128i order =
		s == 2	 ? _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
		: s == 4 ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
			 : _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
	return _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order));
}

#include "codec/x86/shuffle_impl.h"

/*
 * Bit shuffle in two steps, through a tile of byte planes that stays in L1:
 * byte shuffle, then each plane of bytes into 8 planes of bits. Going straight
 * to the bit planes would write to 8 * size places at once, which for blocks of
 * 2^k bytes are all in the same few cache sets. The tile is as large as it is because
 * such places are each in a page of their own, and processors look up few pages for stores:
 * 128 bytes a visit instead of 32 made 64 KiB of 2-byte items six times as fast.
 */
#define BIT_TILE 1024
#define BIT_JOIN 256 /* items a call of bits_join makes */

struct bit_tile {
	_Alignas(32) uint8_t plane[16][BIT_TILE];
};

INLINE void tile_fill(struct bit_tile *t, size_t size, const uint8_t *src, size_t n)
{
	for (size_t i = 0; i < n; i += VB) {
		const uint8_t *s = src + i * size;
		switch (size) {
		case 1: STORE(t->plane[0] + i, LOAD(s)); break;
		case 2: shuffle_tile_avx2(2, s, t->plane[0] + i, BIT_TILE); break;
		case 4: shuffle_tile_avx2(4, s, t->plane[0] + i, BIT_TILE); break;
		case 8: shuffle_tile_avx2(8, s, t->plane[0] + i, BIT_TILE); break;
		default: shuffle_cols_avx2(size, 16, s, t->plane[0] + i, BIT_TILE);
		}
	}
}

INLINE void tile_empty(const struct bit_tile *t, size_t size, uint8_t *dst, size_t n)
{
	size_t cols = size < 16 ? size : 16;
	for (size_t i = 0; i < n; i += VB) {
		uint8_t *d = dst + i * size;
		switch (size) {
		case 1: STORE(d, LOAD(t->plane[0] + i)); break;
		case 2: unshuffle_tile_avx2(2, t->plane[0] + i, d, BIT_TILE); break;
		case 4: unshuffle_tile_avx2(4, t->plane[0] + i, d, BIT_TILE); break;
		case 8: unshuffle_tile_avx2(8, t->plane[0] + i, d, BIT_TILE); break;
		default: unshuffle_cols_avx2(size, cols, t->plane[0] + i, d, BIT_TILE);
		}
	}
}

/* n bytes of a plane, a multiple of 32, to 8 bit planes. The sign bits first, then shift. */
INLINE void bits_split(const uint8_t *src, size_t n, uint8_t *dst, size_t plane)
{
	for (size_t i = 0; i < n; i += 32) {
		__m256i x = LOAD(src + i);
#pragma GCC unroll 8
		for (int b = 7; b >= 0; b--) {
			int m = _mm256_movemask_epi8(x);
			memcpy(dst + (size_t)b * plane + i / 8, &m, 4);
			x = _mm256_add_epi8(x, x);
		}
	}
}

static void bitshuffle_avx2(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	struct bit_tile t;
	size_t cols = size < 16 ? size : 16, plane = n / 8;
	size_t spare = size & (size - 1) ? spare_avx2(size) : 0;
	size_t stop = n > spare ? (n - spare) & ~(size_t)31 : 0;
	for (size_t at = 0; at < stop; at += BIT_TILE) {
		size_t len = stop - at < BIT_TILE ? stop - at : BIT_TILE;
		for (size_t j = 0; j < size; j = next_col_avx2(j, size)) {
			tile_fill(&t, size, src + at * size + j, len);
			for (size_t k = 0; k < cols; k++)
				bits_split(t.plane[k], len, dst + 8 * (j + k) * plane + at / 8, plane);
		}
	}
	bitshuffle_rest(size, n, stop, src, dst);
}

/* kernels.c: bits_mirror, on four matrices of 8 x 8 bits. */
INLINE __m256i bits_mirror(__m256i x)
{
	const __m256i m1 = _mm256_set1_epi64x(0x00AA00AA00AA00AA);
	const __m256i m2 = _mm256_set1_epi64x(0x0000CCCC0000CCCC);
	const __m256i m4 = _mm256_set1_epi64x(0x00000000F0F0F0F0);
	__m256i t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 7)), m1);
	x = _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64(t, 7)));
	t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 14)), m2);
	x = _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64(t, 14)));
	t = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 28)), m4);
	return _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64(t, 28)));
}

/*
 * 32 bytes of each of 8 bit planes to 256 bytes. Unshuffling them as items of
 * 8 bytes brings the 8 bytes that hold 8 items together; then the bits change places.
 */
INLINE void bits_join(const uint8_t *src, size_t plane, uint8_t *dst)
{
	__m256i a[16];
#pragma GCC unroll 8
	for (int b = 0; b < 8; b++)
		a[b] = LOAD(src + (size_t)b * plane);
#pragma GCC unroll 3
	for (int k = 0; k < 3; k++)
		round8_avx2(a, 8);
#pragma GCC unroll 8
	for (int r = 0; r < 8; r++)
		STORE2(dst + 16 * r, 128, bits_mirror(a[r]));
}

static void bitunshuffle_avx2(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	struct bit_tile t;
	size_t cols = size < 16 ? size : 16, plane = n / 8;
	size_t spare = size & (size - 1) ? spare_avx2(size) : 0;
	size_t stop = n > spare ? (n - spare) & ~(size_t)(BIT_JOIN - 1) : 0;
	for (size_t at = 0; at < stop; at += BIT_TILE) {
		size_t len = stop - at < BIT_TILE ? stop - at : BIT_TILE;
		for (size_t j = 0; j < size; j = next_col_avx2(j, size)) {
			const uint8_t *bits = src + 8 * j * plane + at / 8;
			for (size_t k = 0; k < cols; k++)
				for (size_t i = 0; i < len; i += BIT_JOIN)
					bits_join(bits + 8 * k * plane + i / 8, plane, t.plane[k] + i);
			tile_empty(&t, size, dst + at * size + j, len);
		}
	}
	bitunshuffle_rest(size, n, stop, src, dst);
}

void kernels_avx2(struct kernels *k)
{
	k->shuffle = shuffle_avx2;
	k->unshuffle = unshuffle_avx2;
	k->bitshuffle = bitshuffle_avx2;
	k->bitunshuffle = bitunshuffle_avx2;
}
