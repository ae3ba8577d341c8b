/*
 * Byte shuffle for items of 2, 4, 8 and 16 bytes; the body for one register
 * width. The file that includes it has defined
 *
 *   VEC              the register type, VB its bytes, SUFFIX(name) a name of its own
 *   LOAD2(p, gap)    16 bytes at p, and for wide registers 16 more at p + gap (and so on)
 *   STORE2(p, gap, v) the reverse
 *   LOAD, STORE      one whole register
 *   UNPACK_LO8, UNPACK_HI8   interleave bytes inside each 16-byte lane
 *   GATHER(v, s)     optional: groups byte j of all s-byte items of a lane together
 *   LO(a, b, w), HI(a, b, w) with GATHER: interleave elements of w bytes
 *
 * How it works. Let s registers hold VB items so that lane 0 has items 0..15,
 * lane 1 items 16..31. The address of a byte in a lane set is then a string of
 * bits: register number r, place in the lane (item i, byte of item j). Writing
 *      next[2k] = LO8(a[k], a[k + s/2]);  next[2k + 1] = HI8(a[k], a[k + s/2])
 * rotates that string left by one bit: the top bit of the register number
 * becomes the lowest bit of the place. Shuffle wants (j, r, i) from (r, i, j),
 * a rotation right by log2 s, which is one left by 4. Unshuffle is the rotation left
 * by log2 s. With GATHER the start is (r, j, i), and log2 s rounds on elements
 * of 16/s bytes are enough.
 */

#define INLINE static inline __attribute__((always_inline))

INLINE void SUFFIX(round8)(VEC *a, const int s)
{
	VEC b[16];
#pragma GCC unroll 16
	for (int i = 0; i < s / 2; i++) {
		b[2 * i] = UNPACK_LO8(a[i], a[i + s / 2]);
		b[2 * i + 1] = UNPACK_HI8(a[i], a[i + s / 2]);
	}
#pragma GCC unroll 16
	for (int i = 0; i < s; i++)
		a[i] = b[i];
}

#ifdef GATHER
INLINE void SUFFIX(round_w)(VEC *a, const int s)
{
	VEC b[16];
#pragma GCC unroll 16
	for (int i = 0; i < s / 2; i++) {
		b[2 * i] = LO(a[i], a[i + s / 2], 16 / s);
		b[2 * i + 1] = HI(a[i], a[i + s / 2], 16 / s);
	}
#pragma GCC unroll 16
	for (int i = 0; i < s; i++)
		a[i] = b[i];
}
#endif

INLINE int SUFFIX(log2)(const int s)
{
	return s == 2 ? 1 : s == 4 ? 2 : s == 8 ? 3 : 4;
}

/* VB items at src, `step` bytes apart, of which the s bytes at src become s planes `plane` apart. */
INLINE void SUFFIX(shuffle_tile)(const int s, const uint8_t *src, uint8_t *dst, size_t plane)
{
	VEC a[16];
#pragma GCC unroll 16
	for (int r = 0; r < s; r++)
		a[r] = LOAD2(src + 16 * r, 16 * s);
#ifdef GATHER
#pragma GCC unroll 16
	for (int r = 0; r < s; r++)
		a[r] = GATHER(a[r], s);
#pragma GCC unroll 4
	for (int k = 0; k < SUFFIX(log2)(s); k++)
		SUFFIX(round_w)(a, s);
#else
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		SUFFIX(round8)(a, s);
#endif
#pragma GCC unroll 16
	for (int r = 0; r < s; r++)
		STORE(dst + r * plane, a[r]);
}

INLINE void SUFFIX(unshuffle_tile)(const int s, const uint8_t *src, uint8_t *dst, size_t plane)
{
	VEC a[16];
#pragma GCC unroll 16
	for (int r = 0; r < s; r++)
		a[r] = LOAD(src + r * plane);
#pragma GCC unroll 4
	for (int k = 0; k < SUFFIX(log2)(s); k++)
		SUFFIX(round8)(a, s);
#pragma GCC unroll 16
	for (int r = 0; r < s; r++)
		STORE2(dst + 16 * r, 16 * s, a[r]);
}

#define SHUFFLE_LOOPS(s)                                                                  \
	static void SUFFIX(shuffle##s)(size_t n, const uint8_t *src, uint8_t *dst)            \
	{                                                                                     \
		size_t i = 0;                                                                 \
		for (; i + VB <= n; i += VB)                                                  \
			SUFFIX(shuffle_tile)(s, src + i * s, dst + i, n);                     \
		shuffle_rest(s, n, i, src, dst);                                              \
	}                                                                                     \
	static void SUFFIX(unshuffle##s)(size_t n, const uint8_t *src, uint8_t *dst)          \
	{                                                                                     \
		size_t i = 0;                                                                 \
		for (; i + VB <= n; i += VB)                                                  \
			SUFFIX(unshuffle_tile)(s, src + i, dst + i * s, n);                   \
		unshuffle_rest(s, n, i, src, dst);                                            \
	}

SHUFFLE_LOOPS(2)
SHUFFLE_LOOPS(4)
SHUFFLE_LOOPS(8)
SHUFFLE_LOOPS(16)

static void SUFFIX(shuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	switch (size) {
	case 2: SUFFIX(shuffle2)(n, src, dst); break;
	case 4: SUFFIX(shuffle4)(n, src, dst); break;
	case 8: SUFFIX(shuffle8)(n, src, dst); break;
	case 16: SUFFIX(shuffle16)(n, src, dst); break;
	default: shuffle_rest(size, n, 0, src, dst);
	}
}

static void SUFFIX(unshuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	switch (size) {
	case 2: SUFFIX(unshuffle2)(n, src, dst); break;
	case 4: SUFFIX(unshuffle4)(n, src, dst); break;
	case 8: SUFFIX(unshuffle8)(n, src, dst); break;
	case 16: SUFFIX(unshuffle16)(n, src, dst); break;
	default: unshuffle_rest(size, n, 0, src, dst);
	}
}
