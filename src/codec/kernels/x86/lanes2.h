/*
 * The macros for shuffle_impl.h, with registers of two lanes of 16 bytes: for AVX2, and for AVX-512
 * where wider ones do not pay. One instruction sorts a lane (GATHER), which saves rounds.
 */
#ifndef CODEC_KERNELS_X86_LANES2_H
#define CODEC_KERNELS_X86_LANES2_H

#include "codec/inline.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VEC __m256i
#define VB 32
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

#define SHL64(v, n) _mm256_slli_epi64((v), (n))
#define SHR64(v, n) _mm256_srli_epi64((v), (n))
#define SET64(x) _mm256_set1_epi64x(x)

#endif
