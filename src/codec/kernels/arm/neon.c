/* NEON, which every aarch64 has: the shuffles of shuffle_impl.h on registers of 16 bytes. */
#include "codec/inline.h"
#include "codec/kernels/kernels.h"

#include <arm_neon.h>
#include <string.h>

#define VEC uint8x16_t
#define VB 16
#define SUFFIX(name) name##_neon
#define LOAD(p) vld1q_u8(p)
#define STORE(p, v) vst1q_u8((p), (v))
#define STORE_LANE(p, v, l) STORE((p), (v))
#define LOAD2(p, gap) LOAD(p)
#define JOIN(a, b, l) (a)
#define UNPACK_LO8(a, b) vzip1q_u8((a), (b))
#define UNPACK_HI8(a, b) vzip2q_u8((a), (b))

#define AS64(v) vreinterpretq_u64_u8(v)
#define AS8(v) vreinterpretq_u8_u64(v)
#define XOR(a, b) veorq_u8((a), (b))
#define AND(a, b) vandq_u8((a), (b))
#define SHL64(v, n) AS8(vshlq_n_u64(AS64(v), (n)))
#define SHR64(v, n) AS8(vshrq_n_u64(AS64(v), (n)))
#define SET64(x) AS8(vdupq_n_u64(x))

#include "codec/kernels/shuffle_impl.h"
#include "codec/kernels/bitshuffle_impl.h"

/* Running sums inside a register by doubling steps; the last byte carries over. */
static void sum_scan_neon(size_t n, const uint8_t *src, uint8_t *dst)
{
	const uint8x16_t zero = vdupq_n_u8(0);
	uint8x16_t carry = zero;
	size_t i = 0;
	for (; i + 16 <= n; i += 16) {
		uint8x16_t x = LOAD(src + i);
		x = vaddq_u8(x, vextq_u8(zero, x, 15));
		x = vaddq_u8(x, vextq_u8(zero, x, 14));
		x = vaddq_u8(x, vextq_u8(zero, x, 12));
		x = vaddq_u8(x, vextq_u8(zero, x, 8));
		STORE(dst + i, vaddq_u8(x, carry));
		carry = vaddq_u8(carry, vdupq_laneq_u8(x, 15));
	}
	sum_scan_rest(n, i, src, dst);
}

void kernels_neon(struct kernels *k)
{
	k->shuffle = shuffle_neon;
	k->unshuffle = unshuffle_neon;
	k->bitshuffle = bitshuffle_neon;
	k->bitunshuffle = bitunshuffle_neon;
	k->sum_scan = sum_scan_neon;
}
