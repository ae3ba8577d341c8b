/*
 * AVX-512 without VBMI, as from Skylake to Cascade Lake. Registers have two lanes as with AVX2:
 * wider ones are up to twice as fast here, but lower the clock for a millisecond afterwards, which
 * costs more than they gain (docs/SPEED.md, "Registers of 64 bytes"). The gain is from more
 * registers, and ternary logic.
 */
#include "codec/kernels/kernels.h"
#include "codec/kernels/x86/lanes2.h"
#include "codec/zstd/codes.h"

#define SUFFIX(name) name##_avx512bw
#define IN_LINES(s) ((s) <= 8)
#define CHOOSE(mask, a, b) _mm256_ternarylogic_epi64((mask), (a), (b), 0xCA)

#include "codec/kernels/shuffle_impl.h"
#include "codec/kernels/bitshuffle_impl.h"

void kernels_avx512bw(struct kernels *k)
{
	k->shuffle = shuffle_avx512bw;
	k->unshuffle = unshuffle_avx512bw;
	k->bitshuffle = bitshuffle_avx512bw;
	k->bitunshuffle = bitunshuffle_avx512bw;
	k->put_codes = zstd_put_codes_avx512bw;
}
