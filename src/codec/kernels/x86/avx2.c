/*
 * AVX2: the shuffles of shuffle_impl.h on registers of two lanes of 16 bytes. Where a lane can be
 * sorted by one instruction (GATHER) fewer rounds are needed. Differences stay with C, which
 * compilers turn into vectors by themselves.
 */
#include "codec/codecs/lz4_fast.h"
#include "codec/entropy.h"
#include "codec/inline.h"
#include "codec/kernels/kernels.h"
#include "codec/unzstd/unzstd.h"
#include "codec/zstd/codes.h"
#include "codec/zstd/fast.h"

#include <immintrin.h>
#include <string.h>

#define VEC __m256i
#define VB 32
#define SUFFIX(name) name##_avx2
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), (v))
#define LOAD2(p, gap) _mm256_loadu2_m128i((const __m128i *)((p) + (gap)), (const __m128i *)(p))
#define JOIN join
#define LANE(v, l) ((l) ? _mm256_extracti128_si256((v), 1) : _mm256_castsi256_si128(v))
#define STORE_LANE(p, v, l) _mm_storeu_si128((__m128i *)(p), LANE((v), (l)))
#define UNPACK_LO8(a, b) _mm256_unpacklo_epi8((a), (b))
#define UNPACK_HI8(a, b) _mm256_unpackhi_epi8((a), (b))
#define GATHER gather
#define PERMUTE(v, order) _mm256_shuffle_epi8((v), (order))
#define GROUP 16
#define LOAD_GROUPS LOAD2
#define STORE_GROUP STORE_LANE
#define LO unpack_lo
#define HI unpack_hi

ALWAYS_INLINE __m256i join(__m256i a, __m256i b, const size_t lane)
{
	return lane ? _mm256_permute2x128_si256(a, b, 0x31)
		    : _mm256_inserti128_si256(a, _mm256_castsi256_si128(b), 1);
}

ALWAYS_INLINE __m256i unpack_lo(__m256i a, __m256i b, const size_t w)
{
	return w == 8	? _mm256_unpacklo_epi64(a, b)
	       : w == 4 ? _mm256_unpacklo_epi32(a, b)
	       : w == 2 ? _mm256_unpacklo_epi16(a, b)
			: _mm256_unpacklo_epi8(a, b);
}

ALWAYS_INLINE __m256i unpack_hi(__m256i a, __m256i b, const size_t w)
{
	return w == 8	? _mm256_unpackhi_epi64(a, b)
	       : w == 4 ? _mm256_unpackhi_epi32(a, b)
	       : w == 2 ? _mm256_unpackhi_epi16(a, b)
			: _mm256_unpackhi_epi8(a, b);
}

ALWAYS_INLINE __m256i gather(__m256i v, const size_t s)
{
	if (s == 16)
		return v;
	const __m128i order =
		s == 2	 ? _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
		: s == 4 ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
			 : _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
	return _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order));
}

#define XOR(a, b) _mm256_xor_si256((a), (b))
#define AND(a, b) _mm256_and_si256((a), (b))
#define SHL64(v, n) _mm256_slli_epi64((v), (n))
#define SHR64(v, n) _mm256_srli_epi64((v), (n))
#define SET64(x) _mm256_set1_epi64x(x)

#include "codec/kernels/shuffle_impl.h"
#include "codec/kernels/bitshuffle_impl.h"

/*
 * Running sums: inside eight bytes by doubling steps, which shift and need no shuffle, then over
 * the halves of a lane, then over the lanes. What is carried on is the sum of both lanes, so that
 * the chain from one register to the next is one addition.
 */
static void sum_scan_avx2(size_t n, const uint8_t *src, uint8_t *dst)
{
	const int64_t low = 0x0707070707070707;
	const __m256i upper_half = _mm256_set_epi64x(low, -1, low, -1);
	const __m256i top = _mm256_set1_epi8(15);
	__m256i carry = _mm256_setzero_si256();
	size_t i = 0;
	for (; i + 32 <= n; i += 32) {
		__m256i x = LOAD(src + i);
		x = _mm256_add_epi8(x, _mm256_slli_epi64(x, 8));
		x = _mm256_add_epi8(x, _mm256_slli_epi64(x, 16));
		x = _mm256_add_epi8(x, _mm256_slli_epi64(x, 32));
		x = _mm256_add_epi8(x, _mm256_shuffle_epi8(x, upper_half));
		__m256i lane = _mm256_shuffle_epi8(x, top);
		__m256i below = _mm256_permute2x128_si256(lane, lane, 0x08); /* zero, lane 0 */
		x = _mm256_add_epi8(x, below);
		STORE(dst + i, _mm256_add_epi8(x, carry));
		__m256i both = _mm256_add_epi8(lane, _mm256_permute4x64_epi64(lane, 0x4E));
		carry = _mm256_add_epi8(carry, both);
	}
	sum_scan_rest(n, i, src, dst);
}

static uint32_t entropy_avx2(const uint32_t count[256])
{
	return entropy_of(count);
}

void kernels_avx2(struct kernels *k)
{
	k->shuffle = shuffle_avx2;
	k->unshuffle = unshuffle_avx2;
	k->bitshuffle = bitshuffle_avx2;
	k->bitunshuffle = bitunshuffle_avx2;
	k->sum_scan = sum_scan_avx2;
	k->put_codes = zstd_put_codes_avx2;
	k->put_lz4 = lz4_fast_avx2;
	k->put_zstd = zstd_fast_avx2;
	k->price_zstd = zstd_price_avx2;
	k->entropy = entropy_avx2;
	k->get_zstd = unzstd;
}
