/* SSE2, which every x86-64 has: the shuffles of shuffle_impl.h on registers of 16 bytes. */
#include "codec/inline.h"
#include "codec/kernels/kernels.h"

#include <emmintrin.h>
#include <string.h>

#define VEC __m128i
#define VB 16
#define SUFFIX(name) name##_sse2
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define STORE(p, v) _mm_storeu_si128((__m128i *)(p), (v))
#define LOAD2(p, gap) LOAD(p)
#define JOIN(a, b, l) (a)
#define STORE_LANE(p, v, l) STORE((p), (v))
#define UNPACK_LO8(a, b) _mm_unpacklo_epi8((a), (b))
#define UNPACK_HI8(a, b) _mm_unpackhi_epi8((a), (b))

#define XOR(a, b) _mm_xor_si128((a), (b))
#define AND(a, b) _mm_and_si128((a), (b))
#define SHL64(v, n) _mm_slli_epi64((v), (n))
#define SHR64(v, n) _mm_srli_epi64((v), (n))
#define SET64(x) _mm_set1_epi64x(x)

#include "codec/kernels/shuffle_impl.h"
#include "codec/kernels/bitshuffle_impl.h"

/* Running sums inside a register by doubling steps; the last byte carries over. */
static void sum_scan_sse2(size_t n, const uint8_t *src, uint8_t *dst)
{
	uint8_t sum = 0;
	size_t i = 0;
	for (; i + 16 <= n; i += 16) {
		__m128i x = LOAD(src + i);
		x = _mm_add_epi8(x, _mm_slli_si128(x, 1));
		x = _mm_add_epi8(x, _mm_slli_si128(x, 2));
		x = _mm_add_epi8(x, _mm_slli_si128(x, 4));
		x = _mm_add_epi8(x, _mm_slli_si128(x, 8));
		/*
		 * The register's own total does not wait for the carry: a short dependency chain.
		 */
		uint8_t total = (uint8_t)(_mm_extract_epi16(x, 7) >> 8);
		STORE(dst + i, _mm_add_epi8(x, _mm_set1_epi8((char)sum)));
		sum = (uint8_t)(sum + total);
	}
	sum_scan_rest(n, i, src, dst);
}

void kernels_sse2(struct kernels *k)
{
	k->shuffle = shuffle_sse2;
	k->unshuffle = unshuffle_sse2;
	k->bitshuffle = bitshuffle_sse2;
	k->bitunshuffle = bitunshuffle_sse2;
	k->sum_scan = sum_scan_sse2;
}
