/*
 * Bit shuffle for one register width; included after shuffle_impl.h. Besides its macros, the
 * including file has defined
 *
 *   SHL64, SHR64, SET64   as their names say, and
 *   XOR, AND              likewise, or
 *   CHOOSE(mask, a, b)    the bits of a where the mask has them, else those of b
 *
 * or OWN_BITS, and its own bits_split and bits_join.
 */

/*
 * Bit shuffle in two steps, through a tile of byte planes that stays in L1: byte shuffle, then each
 * plane of bytes into 8 planes of bits. Going straight to the bit planes would write to 8 * size
 * places at once, which for blocks of 2^k bytes all map to the same few cache sets. The tile has
 * this size because each of those places is in a different page, and stores have few TLB entries:
 * 128 bytes per visit instead of 32 made 64 KiB of 2-byte items six times as fast.
 */
#define BIT_TILE 1024
#define BIT_JOIN (8 * VB) /* items per call of bits_join */
#ifdef OWN_BITS
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
/* In each byte, swaps the bits of b in the mask with the bits of a that are s places higher. */
#ifdef CHOOSE
#define SWAP_BITS(a, b, s, mask)                                          \
	do {                                                              \
		VEC low = CHOOSE(SET64(mask), SHR64((a), (s)), (b));      \
		(a) = CHOOSE(SET64(mask), (a), SHL64((b), (s)));          \
		(b) = low;                                                \
	} while (0)
#else
#define SWAP_BITS(a, b, s, mask)                                          \
	do {                                                              \
		VEC differ = AND(XOR(SHR64((a), (s)), (b)), SET64(mask)); \
		(b) = XOR((b), differ);                                   \
		(a) = XOR((a), SHL64(differ, (s)));                       \
	} while (0)
#endif

/*
 * Transposes, at each byte position, the 8 x 8 bits of eight registers: squares of four bits first,
 * then of two, then single bits, in nine instructions per register. Transposing eight neighbours
 * within a register takes 15, and eight movemasks per register are limited by their narrow stores.
 */
ALWAYS_INLINE void SUFFIX(bits_turn)(VEC *a)
{
#pragma GCC unroll 4
	for (size_t r = 0; r < 4; r++)
		SWAP_BITS(a[r], a[r + 4], 4, 0x0F0F0F0F0F0F0F0F);
#pragma GCC unroll 4
	for (size_t i = 0; i < 4; i++) {
		size_t r = i + (i & 2);
		SWAP_BITS(a[r], a[r + 2], 2, 0x3333333333333333);
	}
#pragma GCC unroll 4
	for (size_t r = 0; r < 8; r += 2)
		SWAP_BITS(a[r], a[r + 1], 1, 0x5555555555555555);
}

/*
 * n bytes of a plane, a multiple of 8 * VB, to 8 bit planes: as byte planes of 8-byte items,
 * transposed.
 */
ALWAYS_INLINE void SUFFIX(bits_split)(const uint8_t *src, size_t n, uint8_t *dst, size_t plane)
{
	for (size_t i = 0; i < n; i += 8 * VB) {
		VEC a[16];
		SUFFIX(to_planes)(a, 8, src + i);
		SUFFIX(bits_turn)(a);
#pragma GCC unroll 8
		for (size_t b = 0; b < 8; b++)
			STORE(dst + b * plane + i / 8, a[b]);
	}
}
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
/* VB bytes of each of 8 bit planes to 8 * VB bytes. */
ALWAYS_INLINE void SUFFIX(bits_join)(const uint8_t *src, size_t plane, uint8_t *dst)
{
	VEC a[16];
#pragma GCC unroll 8
	for (size_t b = 0; b < 8; b++)
		a[b] = LOAD(src + b * plane);
	SUFFIX(bits_turn)(a);
	SUFFIX(from_planes)(a, 8, dst);
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
