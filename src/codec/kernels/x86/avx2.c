/*
 * AVX2: the shuffles of shuffle_impl.h on registers of two lanes of 16 bytes. Differences are left
 * to C, which compilers vectorise.
 */
#include "codec/codecs/lz4_fast.h"
#include "codec/entropy.h"
#include "codec/kernels/kernels.h"
#include "codec/kernels/x86/lanes2.h"
#include "codec/unzstd/unzstd.h"
#include "codec/zstd/codes.h"
#include "codec/zstd/fast.h"

#define SUFFIX(name) name##_avx2
#define XOR(a, b) _mm256_xor_si256((a), (b))
#define AND(a, b) _mm256_and_si256((a), (b))

#include "codec/kernels/shuffle_impl.h"
#include "codec/kernels/bitshuffle_impl.h"

/*
 * Running sums: inside eight bytes by doubling steps, as shifts without shuffles, then over the
 * halves of a lane, then over the lanes. The sum of both lanes is carried, so the dependency chain
 * from one register to the next is a single addition.
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
	k->estimate_zstd = zstd_estimate_avx2;
	k->entropy = entropy_avx2;
	k->get_zstd = unzstd;
}
