/*
 * AVX-512 with VBMI and GFNI. Interleaving is over whole registers here, so items are read and
 * written 64 bytes at a time; see shuffle_impl.h for the rotation of address bits.
 */
#include "codec/inline.h"
#include "codec/kernels/kernels.h"
#include "codec/zstd/codes.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define VEC __m512i
#define VB 64
#define SUFFIX(name) name##_avx512vbmi
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512((p), (v))
#define LANE(v, l)                                                                        \
	((l) == 0   ? _mm512_castsi512_si128(v)                                           \
	 : (l) == 1 ? _mm512_extracti32x4_epi32((v), 1)                                   \
	 : (l) == 2 ? _mm512_extracti32x4_epi32((v), 2)                                   \
		    : _mm512_extracti32x4_epi32((v), 3))
#define LOAD2(p, gap) load4((p), (gap))
#define STORE_LANE(p, v, l) _mm_storeu_si128((__m128i *)(p), LANE((v), (l)))
#define UNPACK_LO8(a, b) _mm512_unpacklo_epi8((a), (b))
#define UNPACK_HI8(a, b) _mm512_unpackhi_epi8((a), (b))
#define PERMUTE(v, order) _mm512_permutexvar_epi8((order), (v))
#define GROUP 64
#define LOAD_GROUPS(p, gap) LOAD(p)
#define STORE_GROUP(p, v, l) STORE((p), (v))
#define OWN_PLANES
#define OWN_LOOPS
#define OWN_BITS

ALWAYS_INLINE __m512i load4(const uint8_t *p, size_t gap)
{
	__m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
	v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + gap)), 1);
	v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 2 * gap)), 2);
	return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 3 * gap)), 3);
}

/* f(0), f(1), ... f(n - 1) */
#define LIST8(f, i) f(i), f(i + 1), f(i + 2), f(i + 3), f(i + 4), f(i + 5), f(i + 6), f(i + 7)
#define LIST16(f) LIST8(f, 0), LIST8(f, 8)
#define LIST64(f)                                                                         \
	LIST8(f, 0), LIST8(f, 8), LIST8(f, 16), LIST8(f, 24), LIST8(f, 32), LIST8(f, 40), \
		LIST8(f, 48), LIST8(f, 56)

/*
 * The source of byte i when interleaving the low halves of two registers; + 32 for the high halves.
 */
#define WEAVE8(i) (((i) & 1) * 64 + (i) / 2)
#define WEAVE8_HI(i) (WEAVE8(i) + 32)
static const uint8_t weave8[2][64] = {{LIST64(WEAVE8)}, {LIST64(WEAVE8_HI)}};

/* The same for elements of 1, 2, 4 and 8 words of 4 bytes. */
#define WEAVE32(i, w) (((i) / (w) % 2) * 16 + (i) / (2 * (w)) * (w) + (i) % (w))
#define W1(i) WEAVE32(i, 1)
#define W1_HI(i) (WEAVE32(i, 1) + 8)
#define W2(i) WEAVE32(i, 2)
#define W2_HI(i) (WEAVE32(i, 2) + 8)
#define W4(i) WEAVE32(i, 4)
#define W4_HI(i) (WEAVE32(i, 4) + 8)
#define W8(i) WEAVE32(i, 8)
#define W8_HI(i) (WEAVE32(i, 8) + 8)
static const uint32_t weave32[4][2][16] = {
	{{LIST16(W1)}, {LIST16(W1_HI)}},
	{{LIST16(W2)}, {LIST16(W2_HI)}},
	{{LIST16(W4)}, {LIST16(W4_HI)}},
	{{LIST16(W8)}, {LIST16(W8_HI)}},
};

/* Groups byte j of all s-byte items of a register. */
#define SORT(i, s) ((i) % (64 / (s)) * (s) + (i) / (64 / (s)))
#define S2(i) SORT(i, 2)
#define S4(i) SORT(i, 4)
#define S8(i) SORT(i, 8)
#define S16(i) SORT(i, 16)
static const uint8_t sort[4][64] = {{LIST64(S2)}, {LIST64(S4)}, {LIST64(S8)}, {LIST64(S16)}};

/* One rotation of the s registers in `a`; elements of 64 / s bytes, or of one byte. */
ALWAYS_INLINE void weave_words(__m512i *a, const size_t s)
{
	__m512i b[16], lo = LOAD(weave32[4 - LOG2(s)][0]), hi = LOAD(weave32[4 - LOG2(s)][1]);
#pragma GCC unroll 16
	for (size_t i = 0; i < s / 2; i++) {
		b[2 * i] = _mm512_permutex2var_epi32(a[i], lo, a[i + s / 2]);
		b[2 * i + 1] = _mm512_permutex2var_epi32(a[i], hi, a[i + s / 2]);
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < s; i++)
		a[i] = b[i];
}

ALWAYS_INLINE void weave_bytes(__m512i *a, const size_t s)
{
	__m512i b[16], lo = LOAD(weave8[0]), hi = LOAD(weave8[1]);
#pragma GCC unroll 16
	for (size_t i = 0; i < s / 2; i++) {
		b[2 * i] = _mm512_permutex2var_epi8(a[i], lo, a[i + s / 2]);
		b[2 * i + 1] = _mm512_permutex2var_epi8(a[i], hi, a[i + s / 2]);
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < s; i++)
		a[i] = b[i];
}

ALWAYS_INLINE void planes_of_sorted_avx512vbmi(__m512i *a, const size_t s)
{
#pragma GCC unroll 4
	for (unsigned k = 0; k < LOG2(s); k++)
		weave_words(a, s);
}

ALWAYS_INLINE void items_of_planes_avx512vbmi(__m512i *a, const size_t s)
{
#pragma GCC unroll 4
	for (unsigned k = 0; k < LOG2(s); k++)
		weave_bytes(a, s);
}

ALWAYS_INLINE void to_planes_avx512vbmi(__m512i *a, const size_t s, const uint8_t *src)
{
	__m512i order = LOAD(sort[LOG2(s) - 1]);
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
		a[r] = _mm512_permutexvar_epi8(order, LOAD(src + 64 * r));
	planes_of_sorted_avx512vbmi(a, s);
}

ALWAYS_INLINE void from_planes_avx512vbmi(__m512i *a, const size_t s, uint8_t *dst)
{
	items_of_planes_avx512vbmi(a, s);
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
		STORE(dst + 64 * r, a[r]);
}

/*
 * Items of 8 and 16 bytes, where the rotations above are limited by the two shuffle ports:
 * transposes an s x s matrix of elements of 64 / s bytes with two shuffles per register, and
 * blends, which run on any port, in between. With b[r][k] the k-th element of register r:
 *      row r rotated, and reversed:           b[r][k] = a[r][r - k] (indices modulo s)
 *      column k moved up by k, bit by bit:    c[j][k] = b[j + k][k] = a[j + k][j]
 *      row j rotated:                         d[j][r] = c[j][r - j] = a[r][j]
 * The first step also sorts the bytes of the items; the last step of unshuffle undoes that.
 */
#define ELEMENT(i, s) ((i) / (64 / (s)))
#define IN_ELEMENT(i, s) ((i) % (64 / (s)))
#define E8(i) ELEMENT(i, 8)
#define E16(i) ELEMENT(i, 16)
#define B8(i) (IN_ELEMENT(i, 8) * 8)
#define B16(i) (IN_ELEMENT(i, 16) * 16)
#define M8(i) ((i) % 8)
#define M16(i) ((i) % 16)
#define D8(i) ((i) / 8)
#define D16(i) ((i) / 16)
static const uint8_t element_of[2][64] = {{LIST64(E8)}, {LIST64(E16)}};
static const uint8_t item_base[2][64] = {{LIST64(B8)}, {LIST64(B16)}};
static const uint8_t byte_in_item[2][64] = {{LIST64(M8)}, {LIST64(M16)}};
static const uint8_t item_in_register[2][64] = {{LIST64(D8)}, {LIST64(D16)}};

ALWAYS_INLINE __m512i choose(const size_t s, const unsigned bit, __m512i a, __m512i b)
{
	static const __mmask16 words[4] = {0xAAAA, 0xCCCC, 0xF0F0, 0xFF00};
	if (s == 16)
		return _mm512_mask_blend_epi32(words[bit], a, b);
	return _mm512_mask_blend_epi64((__mmask8)words[bit], a, b);
}

/* Moves column k of the s registers by k rows, up or down. */
ALWAYS_INLINE void move_columns(__m512i *a, const size_t s, const bool up)
{
#pragma GCC unroll 4
	for (unsigned t = 0; t < LOG2(s); t++) {
		const size_t by = up ? (size_t)1 << t : s - ((size_t)1 << t);
		__m512i b[16];
#pragma GCC unroll 16
		for (size_t j = 0; j < s; j++)
			b[j] = choose(s, t, a[j], a[(j + by) % s]);
#pragma GCC unroll 16
		for (size_t j = 0; j < s; j++)
			a[j] = b[j];
	}
}

/* Element i of the result is element i + by of x. */
ALWAYS_INLINE __m512i turn(const size_t s, __m512i x, const int by)
{
	static const uint32_t word[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	static const uint64_t pair[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	if (s == 16)
		return _mm512_permutexvar_epi32(_mm512_add_epi32(LOAD(word), _mm512_set1_epi32(by)),
						x);
	return _mm512_permutexvar_epi64(_mm512_add_epi64(LOAD(pair), _mm512_set1_epi64(by)), x);
}

/* The permutation for each register: where the bytes of its rotated row come from ... */
ALWAYS_INLINE void turning_in(__m512i *order, const size_t s)
{
	const int t = s == 16;
	for (size_t r = 0; r < s; r++) {
		__m512i j = _mm512_sub_epi8(_mm512_set1_epi8((char)r), LOAD(element_of[t]));
		order[r] = _mm512_or_si512(LOAD(item_base[t]),
					   _mm512_and_si512(j, _mm512_set1_epi8((char)(s - 1))));
	}
}

/* ... and where those of a rotated row go. */
ALWAYS_INLINE void turning_out(__m512i *order, const size_t s)
{
	const int t = s == 16;
	for (size_t r = 0; r < s; r++) {
		__m512i k = _mm512_sub_epi8(_mm512_set1_epi8((char)r), LOAD(byte_in_item[t]));
		k = _mm512_and_si512(k, _mm512_set1_epi8((char)(s - 1)));
		order[r] =
			_mm512_or_si512(_mm512_slli_epi16(k, t ? 2 : 3), LOAD(item_in_register[t]));
	}
}

/*
 * Planes a multiple of 4096 bytes apart, as in blocks of 2^k bytes, map to one set of L1, which has
 * twelve ways, the source's lines included. So for 16-byte items only the first IN_PLACE_16 planes
 * are accessed in place. The others go through a buffer on the stack, NEAR bytes of each plane at a
 * time. See docs/SPEED.md, "Shuffle of 16 bytes".
 */
#define IN_PLACE_16 6u
#define NEAR 1024u

/* The planes of a tile: those accessed in place, and the others. */
struct planes {
	uint8_t *low, *high;
	size_t low_gap, high_gap;
};

ALWAYS_INLINE uint8_t *plane_at(const struct planes *p, const size_t j)
{
	return j < IN_PLACE_16 ? p->low + j * p->low_gap
			       : p->high + (j - IN_PLACE_16) * p->high_gap;
}

ALWAYS_INLINE void shuffle_turned(const size_t s, const __m512i *order, const uint8_t *src,
				  const struct planes *dst)
{
	__m512i a[16];
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
		a[r] = _mm512_permutexvar_epi8(order[r], LOAD(src + 64 * r));
	move_columns(a, s, true);
#pragma GCC unroll 16
	for (size_t j = 0; j < s; j++) {
		STORE(plane_at(dst, j), turn(s, a[j], (int)(s - j)));
		if (j < IN_PLACE_16)
			__builtin_prefetch(plane_at(dst, j) + 64, 1, 3);
	}
}

ALWAYS_INLINE void unshuffle_turned(const size_t s, const __m512i *order, const struct planes *src,
				    uint8_t *dst)
{
	__m512i a[16];
#pragma GCC unroll 16
	for (size_t j = 0; j < s; j++)
		a[j] = turn(s, LOAD(plane_at(src, j)), (int)j);
	move_columns(a, s, false);
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
		STORE(dst + 64 * r, _mm512_permutexvar_epi8(order[r], a[r]));
}

/* True: all planes map to one set, which has too few ways. Enough for 8 planes. */
static inline bool planes_collide(const size_t s, size_t n)
{
	return s == 16 && n % 4096 == 0;
}

ALWAYS_INLINE void copy_piece(uint8_t *dst, const uint8_t *src)
{
#pragma GCC unroll 16
	for (unsigned i = 0; i < NEAR; i += 64)
		STORE(dst + i, LOAD(src + i));
}

ALWAYS_INLINE void shuffle_mirrored(const size_t s, size_t n, const uint8_t *src, uint8_t *dst)
{
	__m512i order[16];
	uint8_t near[(16 - IN_PLACE_16) * NEAR] __attribute__((aligned(64)));
	size_t i = 0;
	turning_in(order, s);
	for (; planes_collide(s, n) && i + NEAR <= n; i += NEAR) {
		for (size_t k = 0; k < NEAR; k += 64)
			shuffle_turned(s, order, src + (i + k) * s,
				       &(struct planes){dst + i + k, near + k, n, NEAR});
		for (size_t j = IN_PLACE_16; j < s; j++)
			copy_piece(dst + j * n + i, near + (j - IN_PLACE_16) * NEAR);
	}
	for (; i + 64 <= n; i += 64)
		shuffle_turned(s, order, src + i * s,
			       &(struct planes){dst + i, dst + i + IN_PLACE_16 * n, n, n});
	shuffle_rest(s, n, i, src, dst);
}

ALWAYS_INLINE void unshuffle_mirrored(const size_t s, size_t n, const uint8_t *src, uint8_t *dst)
{
	__m512i order[16];
	uint8_t near[(16 - IN_PLACE_16) * NEAR] __attribute__((aligned(64)));
	size_t i = 0;
	uint8_t *from = (uint8_t *)(uintptr_t)src; /* only read; struct planes serves both ways */
	turning_out(order, s);
	for (; planes_collide(s, n) && i + NEAR <= n; i += NEAR) {
		for (size_t j = IN_PLACE_16; j < s; j++)
			copy_piece(near + (j - IN_PLACE_16) * NEAR, src + j * n + i);
		for (size_t k = 0; k < NEAR; k += 64)
			unshuffle_turned(s, order,
					 &(struct planes){from + i + k, near + k, n, NEAR},
					 dst + (i + k) * s);
	}
	for (; i + 64 <= n; i += 64)
		unshuffle_turned(s, order,
				 &(struct planes){from + i, from + i + IN_PLACE_16 * n, n, n},
				 dst + i * s);
	unshuffle_rest(s, n, i, src, dst);
}

#define MIRRORED_LOOPS(s)                                                                 \
	static void shuffle##s##_avx512vbmi(size_t n, const uint8_t *src, uint8_t *dst)           \
	{                                                                                     \
		shuffle_mirrored(s, n, src, dst);                                             \
	}                                                                                     \
	static void unshuffle##s##_avx512vbmi(size_t n, const uint8_t *src, uint8_t *dst)         \
	{                                                                                     \
		unshuffle_mirrored(s, n, src, dst);                                           \
	}

MIRRORED_LOOPS(8)
MIRRORED_LOOPS(16)

/*
 * Transposes the bits of 8 groups of eight bytes (kernels.c: bits_mirror). The instruction expects
 * the bytes of a group in reverse order.
 */
ALWAYS_INLINE __m512i mirror_reversed(__m512i x)
{
	return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64((long long)0x8040201008040201), x,
					     0);
}

#define REVERSE8(i) ((i) ^ 7)
static const uint8_t reverse8[64] = {LIST64(REVERSE8)};

/* 64 bytes of a plane become 8 bytes of each of 8 bit planes, plane 0 first. */
ALWAYS_INLINE __m512i split64(const uint8_t *src)
{
	__m512i x = _mm512_permutexvar_epi8(LOAD(reverse8), LOAD(src));
	return _mm512_permutexvar_epi8(LOAD(sort[2]), mirror_reversed(x));
}

static inline void bits_split_avx512vbmi(const uint8_t *src, size_t n, uint8_t *dst, size_t plane)
{
	size_t i = 0;
	for (; i + 512 <= n; i += 512) {
		__m512i a[16];
#pragma GCC unroll 8
		for (size_t r = 0; r < 8; r++)
			a[r] = split64(src + i + 64 * r);
#pragma GCC unroll 3
		for (unsigned k = 0; k < 3; k++)
			weave_words(a, 8);
#pragma GCC unroll 8
		for (size_t b = 0; b < 8; b++)
			STORE(dst + b * plane + i / 8, a[b]);
	}
	for (; i < n; i += 64) {
		uint64_t x[8];
		STORE(x, split64(src + i));
		for (size_t b = 0; b < 8; b++)
			memcpy(dst + b * plane + i / 8, &x[b], 8);
	}
}

static inline void bits_join_avx512vbmi(const uint8_t *src, size_t plane, uint8_t *dst)
{
	__m512i a[16];
#pragma GCC unroll 8
	for (size_t b = 0; b < 8; b++)
		a[7 - b] = LOAD(src + b * plane);
#pragma GCC unroll 3
	for (unsigned k = 0; k < 3; k++)
		weave_bytes(a, 8);
#pragma GCC unroll 8
	for (size_t r = 0; r < 8; r++)
		STORE(dst + 64 * r, mirror_reversed(a[r]));
}

#include "codec/kernels/shuffle_impl.h"
#include "codec/kernels/bitshuffle_impl.h"

/*
 * Running sums: inside each lane by doubling steps, then over the four lanes, then the carry.
 * Only the last is a chain from one register to the next.
 */
static void sum_scan_avx512vbmi(size_t n, const uint8_t *src, uint8_t *dst)
{
	const __m512i zero = _mm512_setzero_si512(), last = _mm512_set1_epi8(63);
	const __m512i top = _mm512_set1_epi8(15);
	__m512i carry = zero;
	size_t i = 0;
	for (; i + 64 <= n; i += 64) {
		__m512i x = LOAD(src + i);
		x = _mm512_add_epi8(x, _mm512_bslli_epi128(x, 1));
		x = _mm512_add_epi8(x, _mm512_bslli_epi128(x, 2));
		x = _mm512_add_epi8(x, _mm512_bslli_epi128(x, 4));
		x = _mm512_add_epi8(x, _mm512_bslli_epi128(x, 8));
		__m512i lane = _mm512_shuffle_epi8(x, top);
		__m512i below = _mm512_alignr_epi64(lane, zero, 6);
		below = _mm512_add_epi8(below, _mm512_alignr_epi64(below, zero, 6));
		below = _mm512_add_epi8(below, _mm512_alignr_epi64(lane, zero, 2));
		x = _mm512_add_epi8(x, below);
		STORE(dst + i, _mm512_add_epi8(x, carry));
		carry = _mm512_add_epi8(carry, _mm512_permutexvar_epi8(last, x));
	}
	sum_scan_rest(n, i, src, dst);
}

static void sub_bytes_avx512vbmi(size_t n, const uint8_t *src, uint8_t *dst)
{
	if (!n)
		return;
	dst[0] = src[0];
	size_t i = 1;
	for (; i + 64 <= n; i += 64)
		STORE(dst + i, _mm512_sub_epi8(LOAD(src + i), LOAD(src + i - 1)));
	for (; i < n; i++)
		dst[i] = (uint8_t)(src[i] - src[i - 1]);
}

void kernels_avx512vbmi(struct kernels *k)
{
	k->shuffle = shuffle_avx512vbmi;
	k->unshuffle = unshuffle_avx512vbmi;
	k->bitshuffle = bitshuffle_avx512vbmi;
	k->bitunshuffle = bitunshuffle_avx512vbmi;
	k->sum_scan = sum_scan_avx512vbmi;
	k->sub_bytes = sub_bytes_avx512vbmi;
	k->put_codes = zstd_put_codes_avx512vbmi;
}
