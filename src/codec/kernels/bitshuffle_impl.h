/*
 * Bit shuffle for one register width; included behind shuffle_impl.h. Beside
 * its macros the file has defined
 *
 *   ADD8, XOR, AND, SHL64, SHR64, SET64   what their names say
 *   MOVEMASK(v)                           optional: the top bit of each byte, byte 0 lowest
 *
 * or OWN_BITS, and bits_split and bits_join of its own.
 */

/*
 * Bit shuffle in two steps, through a tile of byte planes that stays in L1:
 * byte shuffle, then each plane of bytes into 8 planes of bits. Going straight
 * to the bit planes would write to 8 * size places at once, which for blocks of
 * 2^k bytes are all in the same few cache sets. The tile is as large as it is because
 * such places are each in a page of their own, and processors look up few pages for stores:
 * 128 bytes a visit instead of 32 made 64 KiB of 2-byte items six times as fast.
 */
#define BIT_TILE 1024
#define BIT_JOIN (8 * VB) /* items a call of bits_join makes */
#if defined(MOVEMASK) || defined(OWN_BITS)
#define BIT_SPLIT VB /* bits_split takes any multiple of this */
#else
#define BIT_SPLIT (8 * VB)
#endif

struct bit_tile {
	_Alignas(64) uint8_t plane[16][BIT_TILE];
};

ALWAYS_INLINE void SUFFIX(tile_fill)(struct bit_tile *t, size_t size, const uint8_t *src, size_t n)
{
	for (size_t i = 0; i < n; i += VB) {
		const uint8_t *s = src + i * size;
		switch (size) {
		case 1: STORE(t->plane[0] + i, LOAD(s)); break;
		case 2: SUFFIX(shuffle_tile)(2, s, t->plane[0] + i, BIT_TILE); break;
		case 4: SUFFIX(shuffle_tile)(4, s, t->plane[0] + i, BIT_TILE); break;
		case 8: SUFFIX(shuffle_tile)(8, s, t->plane[0] + i, BIT_TILE); break;
		default: SUFFIX(shuffle_cols)(size, 16, s, t->plane[0] + i, BIT_TILE);
		}
	}
}

ALWAYS_INLINE void SUFFIX(tile_empty)(const struct bit_tile *t, size_t size, uint8_t *dst, size_t n)
{
	size_t cols = size < 16 ? size : 16;
	for (size_t i = 0; i < n; i += VB) {
		uint8_t *d = dst + i * size;
		switch (size) {
		case 1: STORE(d, LOAD(t->plane[0] + i)); break;
		case 2: SUFFIX(unshuffle_tile)(2, t->plane[0] + i, d, BIT_TILE); break;
		case 4: SUFFIX(unshuffle_tile)(4, t->plane[0] + i, d, BIT_TILE); break;
		case 8: SUFFIX(unshuffle_tile)(8, t->plane[0] + i, d, BIT_TILE); break;
		default: SUFFIX(unshuffle_cols)(size, cols, t->plane[0] + i, d, BIT_TILE);
		}
	}
}

#ifndef OWN_BITS
/* kernels.c: bits_mirror, on VB / 8 matrices of 8 x 8 bits. */
ALWAYS_INLINE VEC SUFFIX(bits_mirror)(VEC x)
{
	VEC t = AND(XOR(x, SHR64(x, 7)), SET64(0x00AA00AA00AA00AA));
	x = XOR(x, XOR(t, SHL64(t, 7)));
	t = AND(XOR(x, SHR64(x, 14)), SET64(0x0000CCCC0000CCCC));
	x = XOR(x, XOR(t, SHL64(t, 14)));
	t = AND(XOR(x, SHR64(x, 28)), SET64(0x00000000F0F0F0F0));
	return XOR(x, XOR(t, SHL64(t, 28)));
}

#ifdef MOVEMASK
/* n bytes of a plane, a multiple of VB, to 8 bit planes. The sign bits first, then shift. */
ALWAYS_INLINE void SUFFIX(bits_split)(const uint8_t *src, size_t n, uint8_t *dst, size_t plane)
{
	for (size_t i = 0; i < n; i += VB) {
		VEC x = LOAD(src + i);
#pragma GCC unroll 8
		for (size_t b = 8; b-- > 0;) {
			int m = MOVEMASK(x);
			memcpy(dst + b * plane + i / 8, &m, VB / 8);
			x = ADD8(x, x);
		}
	}
}

#else
/*
 * n bytes of a plane, a multiple of 8 * VB, to 8 bit planes: bits first, then as items of 8 bytes.
 */
ALWAYS_INLINE void SUFFIX(bits_split)(const uint8_t *src, size_t n, uint8_t *dst, size_t plane)
{
	for (size_t i = 0; i < n; i += 8 * VB) {
		VEC a[16];
#pragma GCC unroll 8
		for (size_t r = 0; r < 8; r++)
			a[r] = SUFFIX(bits_mirror)(LOAD2(src + i + 16 * r, 128));
#pragma GCC unroll 4
		for (unsigned k = 0; k < 4; k++)
			SUFFIX(round8)(a, 8);
#pragma GCC unroll 8
		for (size_t b = 0; b < 8; b++)
			STORE(dst + b * plane + i / 8, a[b]);
	}
}
#endif
#endif

static void SUFFIX(bitshuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	struct bit_tile t;
	size_t cols = size < 16 ? size : 16, plane = n / 8;
	size_t spare = size & (size - 1) ? SUFFIX(spare)(size) : 0;
	size_t stop = n > spare ? (n - spare) & ~(size_t)(BIT_SPLIT - 1) : 0;
	for (size_t at = 0; at < stop; at += BIT_TILE) {
		size_t len = stop - at < BIT_TILE ? stop - at : BIT_TILE;
		for (size_t j = 0; j < size; j = SUFFIX(next_col)(j, size)) {
			SUFFIX(tile_fill)(&t, size, src + at * size + j, len);
			uint8_t *bits = dst + 8 * j * plane + at / 8;
			for (size_t k = 0; k < cols; k++)
				SUFFIX(bits_split)(t.plane[k], len, bits + 8 * k * plane, plane);
		}
	}
	bitshuffle_rest(size, n, stop, src, dst);
}

#ifndef OWN_BITS
/*
 * VB bytes of each of 8 bit planes to 8 * VB bytes. Unshuffling them as items of
 * 8 bytes brings the 8 bytes that hold 8 items together; then the bits change places.
 */
ALWAYS_INLINE void SUFFIX(bits_join)(const uint8_t *src, size_t plane, uint8_t *dst)
{
	VEC a[16];
#pragma GCC unroll 8
	for (size_t b = 0; b < 8; b++)
		a[b] = LOAD(src + b * plane);
#pragma GCC unroll 3
	for (unsigned k = 0; k < 3; k++)
		SUFFIX(round8)(a, 8);
#pragma GCC unroll 4
	for (size_t r = 0; r < 8; r += 2)
		STORE4(dst + 16 * r, 128, SUFFIX(bits_mirror)(a[r]), SUFFIX(bits_mirror)(a[r + 1]));
}

#endif

static void SUFFIX(bitunshuffle)(size_t size, size_t n, const uint8_t *src, uint8_t *dst)
{
	struct bit_tile t;
	size_t cols = size < 16 ? size : 16, plane = n / 8;
	size_t spare = size & (size - 1) ? SUFFIX(spare)(size) : 0;
	size_t stop = n > spare ? (n - spare) & ~(size_t)(BIT_JOIN - 1) : 0;
	for (size_t at = 0; at < stop; at += BIT_TILE) {
		size_t len = stop - at < BIT_TILE ? stop - at : BIT_TILE;
		for (size_t j = 0; j < size; j = SUFFIX(next_col)(j, size)) {
			const uint8_t *bits = src + 8 * j * plane + at / 8;
			for (size_t k = 0; k < cols; k++)
				for (size_t i = 0; i < len; i += BIT_JOIN)
					SUFFIX(bits_join)(bits + 8 * k * plane + i / 8, plane,
							  t.plane[k] + i);
			SUFFIX(tile_empty)(&t, size, dst + at * size + j, len);
		}
	}
	bitunshuffle_rest(size, n, stop, src, dst);
}
