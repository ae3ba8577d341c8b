/*
 * Byte shuffle; the body for one register width. Most of it is for items of 2, 4, 8 and 16 bytes.
 * The including file has defined
 *
 *   VEC              the register type, VB its bytes, SUFFIX(name) a name of its own
 *   LOAD2(p, gap)    16 bytes at p, and for wide registers 16 more at p + gap (and so on)
 *   JOIN(a, b, l)    the l-th 16 bytes of a and, in wide registers, after them those of b
 *   LOAD, STORE      one whole register; STORE_LANE(p, v, l): its l-th 16 bytes
 *   UNPACK_LO8, UNPACK_HI8   interleave bytes inside each 16-byte lane
 *   GATHER(v, s)     optional: groups byte j of all s-byte items of a lane together
 *   LO(a, b, w), HI(a, b, w) with GATHER: interleave elements of w bytes
 *   PERMUTE(v, order) optional: the bytes of each group of GROUP bytes in this order. With it
 *   LOAD_GROUPS(p, gap), STORE_GROUP(p, v, l)   as LOAD2 and STORE_LANE, for such groups
 *   IN_LINES(s)      optional: enough registers to store whole lines of planes of s-byte items
 *   OWN_PLANES       optional: rounds, to_planes and from_planes of its own; no JOIN then
 *   OWN_LOOPS        optional: shuffle8, unshuffle8, shuffle16 and unshuffle16 of its own
 *
 * How it works. Let s registers hold VB items so that lane 0 has items 0..15, lane 1 items 16..31.
 * For a given lane number, the address of a byte is then a string of bits: register number r,
 * position in the lane (item i, byte of item j). Writing
 *      next[2k] = LO8(a[k], a[k + s/2]);  next[2k + 1] = HI8(a[k], a[k + s/2])
 * rotates that string left by one bit: the top bit of the register number becomes the lowest bit of
 * the position. Shuffle wants (j, r, i) from (r, i, j), a rotation right by log2 s, which is one
 * left by 4. Unshuffle is the rotation left by log2 s. With GATHER the start is (r, j, i), and log2
 * s rounds on elements of 16/s bytes are enough.
 */

ALWAYS_INLINE void SUFFIX(round8)(VEC *a, const size_t s)
{
	VEC b[16];
#pragma GCC unroll 16
	for (size_t i = 0; i < s / 2; i++) {
		b[2 * i] = UNPACK_LO8(a[i], a[i + s / 2]);
		b[2 * i + 1] = UNPACK_HI8(a[i], a[i + s / 2]);
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < s; i++)
		a[i] = b[i];
}

#ifdef GATHER
ALWAYS_INLINE void SUFFIX(round_w)(VEC *a, const size_t s)
{
	VEC b[16];
#pragma GCC unroll 16
	for (size_t i = 0; i < s / 2; i++) {
		b[2 * i] = LO(a[i], a[i + s / 2], 16 / s);
		b[2 * i + 1] = HI(a[i], a[i + s / 2], 16 / s);
	}
#pragma GCC unroll 16
	for (size_t i = 0; i < s; i++)
		a[i] = b[i];
}
#endif

#ifndef OWN_PLANES
#ifdef GATHER
/* The rounds after GATHER ... */
ALWAYS_INLINE void SUFFIX(planes_of_sorted)(VEC *a, const size_t s)
{
#pragma GCC unroll 4
	for (unsigned k = 0; k < LOG2(s); k++)
		SUFFIX(round_w)(a, s);
}
#endif

/* ... and those of unshuffle. */
ALWAYS_INLINE void SUFFIX(items_of_planes)(VEC *a, const size_t s)
{
#pragma GCC unroll 4
	for (unsigned k = 0; k < LOG2(s); k++)
		SUFFIX(round8)(a, s);
}

/* Loads VB items at src as s registers, one for each plane. */
ALWAYS_INLINE void SUFFIX(to_planes)(VEC *a, const size_t s, const uint8_t *src)
{
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
		a[r] = LOAD2(src + 16 * r, 16 * s);
#ifdef GATHER
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
		a[r] = GATHER(a[r], s);
	SUFFIX(planes_of_sorted)(a, s);
#else
#pragma GCC unroll 4
	for (unsigned k = 0; k < 4; k++)
		SUFFIX(round8)(a, s);
#endif
}

ALWAYS_INLINE void SUFFIX(from_planes)(VEC *a, const size_t s, uint8_t *dst)
{
	SUFFIX(items_of_planes)(a, s);
	const size_t lanes = VB / 16;
#pragma GCC unroll 2
	for (size_t l = 0; l < lanes; l++)
#pragma GCC unroll 16
		for (size_t r = 0; r < s; r += lanes)
			STORE(dst + 16 * (l * s + r), JOIN(a[r], a[r + lanes - 1], l));
}
#endif

/*
 * The same with planes in memory, `plane` bytes apart. Short items are taken in groups that fill a
 * whole cache line of each plane at once: a processor combines stores to one line, but not if
 * others come between them.
 */
#define LINE 64
#ifndef IN_LINES
#define IN_LINES(s) ((s) <= 4)
#endif

/* Takes `len` items, a multiple of VB. */
ALWAYS_INLINE void SUFFIX(shuffle_tiles)(const size_t s, const size_t len, const uint8_t *src,
					 uint8_t *dst, size_t plane)
{
	VEC a[LINE / VB][16];
#pragma GCC unroll 4
	for (size_t k = 0; k < len; k += VB)
		SUFFIX(to_planes)(a[k / VB], s, src + k * s);
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
#pragma GCC unroll 4
		for (size_t k = 0; k < len; k += VB)
			STORE(dst + r * plane + k, a[k / VB][r]);
}

ALWAYS_INLINE void SUFFIX(shuffle_tile)(const size_t s, const uint8_t *src, uint8_t *dst,
					size_t plane)
{
	SUFFIX(shuffle_tiles)(s, VB, src, dst, plane);
}

ALWAYS_INLINE void SUFFIX(unshuffle_tile)(const size_t s, const uint8_t *src, uint8_t *dst,
					size_t plane)
{
	VEC a[16];
#pragma GCC unroll 16
	for (size_t r = 0; r < s; r++)
		a[r] = LOAD(src + r * plane);
	SUFFIX(from_planes)(a, s, dst);
}

/*
 * In blocks of 2^k bytes the planes are multiples of 4096 bytes apart: the lines of a tile share
 * one set of L1, which holds eight or twelve, and are evicted before their next bytes come. So only
 * a few planes are accessed in place. The others are copied, one by one, from or to pieces on the
 * stack.
 */
#define PIECE 512 /* 256 and 1024 are slower: docs/SPEED.md, "Shuffle of 16 bytes" */
#define IN_PLACE 4 /* planes */

struct SUFFIX(pieces) {
	_Alignas(64) uint8_t plane[16][PIECE];
};

ALWAYS_INLINE void SUFFIX(piece_copy)(uint8_t *dst, const uint8_t *src)
{
#pragma GCC unroll 16
	for (size_t k = 0; k < PIECE; k += VB)
		STORE(dst + k, LOAD(src + k));
}

/* If that is worth it. Returns the number of items done: all or none. */
ALWAYS_INLINE size_t SUFFIX(shuffle_pieces)(const size_t s, size_t n, const uint8_t *src,
					    uint8_t *dst)
{
	struct SUFFIX(pieces) t;
	if (n % 4096 || IN_LINES(s) || s < (VB > 16 ? 8 : 16))
		return 0;
	for (size_t i = 0; i < n; i += PIECE) {
		for (size_t k = 0; k < PIECE; k += VB) {
			VEC a[16];
			SUFFIX(to_planes)(a, s, src + (i + k) * s);
#pragma GCC unroll 16
			for (size_t r = 0; r < s; r++)
				STORE(r < IN_PLACE ? dst + r * n + i + k : t.plane[r] + k, a[r]);
		}
		for (size_t r = IN_PLACE; r < s; r++)
			SUFFIX(piece_copy)(dst + r * n + i, t.plane[r]);
	}
	return n;
}

ALWAYS_INLINE size_t SUFFIX(unshuffle_pieces)(const size_t s, size_t n, const uint8_t *src,
					      uint8_t *dst)
{
	struct SUFFIX(pieces) t;
	if (n % 4096 || s < 16)
		return 0;
	for (size_t i = 0; i < n; i += PIECE) {
		for (size_t r = IN_PLACE; r < s; r++)
			SUFFIX(piece_copy)(t.plane[r], src + r * n + i);
		for (size_t k = 0; k < PIECE; k += VB) {
			VEC a[16];
#pragma GCC unroll 16
			for (size_t r = 0; r < s; r++)
				a[r] = LOAD(r < IN_PLACE ? src + r * n + i + k : t.plane[r] + k);
			SUFFIX(from_planes)(a, s, dst + (i + k) * s);
		}
	}
	return n;
}

/*
 * Other sizes, 16 columns at a time: VB items `step` bytes apart, each read as 16 bytes whatever
 * its size. Beyond a shorter item these belong to its successors; only the first `cols` planes are
 * stored.
 */
ALWAYS_INLINE void SUFFIX(shuffle_cols)(size_t step, size_t cols, const uint8_t *src, uint8_t *dst,
					size_t plane)
{
	VEC a[16];
#pragma GCC unroll 16
	for (size_t r = 0; r < 16; r++)
		a[r] = LOAD2(src + r * step, 16 * step);
#pragma GCC unroll 4
	for (unsigned k = 0; k < 4; k++)
		SUFFIX(round8)(a, 16);
#pragma GCC unroll 16
	for (size_t r = 0; r < 16; r++)
		if (r < cols)
			STORE(dst + r * plane, a[r]);
}

/*
 * The reverse. Items are written in ascending order, so each repairs what the one before it
 * overwrote.
 */
ALWAYS_INLINE void SUFFIX(unshuffle_cols)(size_t step, size_t cols, const uint8_t *src,
					  uint8_t *dst, size_t plane)
{
	VEC a[16];
#pragma GCC unroll 16
	for (size_t r = 0; r < 16; r++)
		a[r] = LOAD(src + (r < cols ? r : cols - 1) * plane);
#pragma GCC unroll 4
	for (unsigned k = 0; k < 4; k++)
		SUFFIX(round8)(a, 16);
#pragma GCC unroll 4
	for (size_t l = 0; l < VB / 16; l++)
#pragma GCC unroll 16
		for (size_t r = 0; r < 16; r++)
			STORE_LANE(dst + (16 * l + r) * step, a[r], l);
}

/* How many items past a tile the 16-byte accesses of the *_cols functions reach into. */
ALWAYS_INLINE size_t SUFFIX(spare)(size_t size)
{
	return size >= 16 ? 0 : (16 - size + size - 1) / size;
}

/* The first column of the group after j; the last group may overlap the one before. */
ALWAYS_INLINE size_t SUFFIX(next_col)(size_t j, size_t size)
{
	return j + 16 < size && j + 32 > size ? size - 16 : j + 16;
}

static void SUFFIX(shuffle_any)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	size_t i = 0, cols = size < 16 ? size : 16, spare = SUFFIX(spare)(size);
	for (; i + VB + spare <= n; i += VB)
		for (size_t j = 0; j < size; j = SUFFIX(next_col)(j, size))
			SUFFIX(shuffle_cols)(size, cols, src + i * size + j, dst + j * n + i, n);
	shuffle_rest(size, n, i, src, dst);
}

static void SUFFIX(unshuffle_any)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	size_t i = 0, cols = size < 16 ? size : 16, spare = SUFFIX(spare)(size);
	for (; i + VB + spare <= n; i += VB)
		for (size_t j = 0; j < size; j = SUFFIX(next_col)(j, size))
			SUFFIX(unshuffle_cols)(size, cols, src + j * n + i, dst + i * size + j, n);
	unshuffle_rest(size, n, i, src, dst);
}

/*
 * Prefetches where the next stores go, for items of 8 bytes: too many streams for the hardware
 * prefetcher. A quarter faster on Cascade Lake.
 */
ALWAYS_INLINE void SUFFIX(fetch_lines)(const size_t s, const uint8_t *dst, size_t plane)
{
	if (s != 8)
		return;
#pragma GCC unroll 8
	for (size_t r = 0; r < 8; r++)
		__builtin_prefetch(dst + r * plane, 1, 3);
}

#ifdef PERMUTE
#include "codec/kernels/shuffle_short_impl.h"
#else
#define SHORT_SIZES(direction)
#endif

#define SHUFFLE_LOOPS(s)                                                                  \
	static void SUFFIX(shuffle##s)(size_t n, const uint8_t *src, uint8_t *dst)            \
	{                                                                                     \
		size_t i = SUFFIX(shuffle_pieces)(s, n, src, dst);                            \
		for (; IN_LINES(s) && i + LINE <= n; i += LINE) {                             \
			SUFFIX(shuffle_tiles)(s, LINE, src + i * s, dst + i, n);              \
			SUFFIX(fetch_lines)(s, dst + i + LINE, n);                            \
		}                                                                             \
		for (; i + VB <= n; i += VB)                                                  \
			SUFFIX(shuffle_tile)(s, src + i * s, dst + i, n);                     \
		shuffle_rest(s, n, i, src, dst);                                              \
	}                                                                                     \
	static void SUFFIX(unshuffle##s)(size_t n, const uint8_t *src, uint8_t *dst)          \
	{                                                                                     \
		size_t i = SUFFIX(unshuffle_pieces)(s, n, src, dst);                          \
		for (; i + VB <= n; i += VB)                                                  \
			SUFFIX(unshuffle_tile)(s, src + i, dst + i * s, n);                   \
		unshuffle_rest(s, n, i, src, dst);                                            \
	}

SHUFFLE_LOOPS(2)
SHUFFLE_LOOPS(4)
#ifndef OWN_LOOPS
SHUFFLE_LOOPS(8)
SHUFFLE_LOOPS(16)
#endif

static void SUFFIX(shuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	switch (size) {
	case 2: SUFFIX(shuffle2)(n, src, dst); break;
	case 4: SUFFIX(shuffle4)(n, src, dst); break;
	case 8: SUFFIX(shuffle8)(n, src, dst); break;
	case 16: SUFFIX(shuffle16)(n, src, dst); break;
	case 1: bytes_copy(dst, src, n); break;
	SHORT_SIZES(shuffle)
	default: SUFFIX(shuffle_any)(size, n, src, dst);
	}
}

static void SUFFIX(unshuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	switch (size) {
	case 2: SUFFIX(unshuffle2)(n, src, dst); break;
	case 4: SUFFIX(unshuffle4)(n, src, dst); break;
	case 8: SUFFIX(unshuffle8)(n, src, dst); break;
	case 16: SUFFIX(unshuffle16)(n, src, dst); break;
	case 1: bytes_copy(dst, src, n); break;
	SHORT_SIZES(unshuffle)
	default: SUFFIX(unshuffle_any)(size, n, src, dst);
	}
}
