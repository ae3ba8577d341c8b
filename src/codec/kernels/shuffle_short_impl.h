/*
 * Byte shuffle for items of 3, 5, 6 and 7 bytes, such as pixels; part of shuffle_impl.h, where the
 * macros are explained. They are treated as items of p = 4 or 8 bytes without the last ones: the
 * permutation that sorts a group of items also spreads them, and in the reverse it packs them.
 */

/* For each byte of a sorted group, plane by plane: its index in the packed group. */
ALWAYS_INLINE VEC SUFFIX(order_in)(const size_t p, const size_t size)
{
	const size_t items = GROUP / p;
	uint8_t order[VB];

	for (size_t i = 0; i < VB; i++) {
		size_t j = i % GROUP / items, item = i % items;
		order[i] = (uint8_t)(item * size + (j < size ? j : 0));
	}
	return LOAD(order);
}

/* For each byte of a packed group: its index among items of p bytes. */
ALWAYS_INLINE VEC SUFFIX(order_out)(const size_t p, const size_t size)
{
	uint8_t order[VB];

	for (size_t i = 0; i < VB; i++) {
		size_t item = i % GROUP / size, j = i % GROUP % size;
		order[i] = (uint8_t)((item * p + j) % GROUP);
	}
	return LOAD(order);
}

/* How many items past a tile the access to its last group reaches into. */
ALWAYS_INLINE size_t SUFFIX(spare_short)(const size_t p, const size_t size)
{
	return (GROUP - GROUP / p * size + size - 1) / size;
}

ALWAYS_INLINE void SUFFIX(shuffle_short)(const size_t p, const size_t size, size_t n,
					 const uint8_t *src, uint8_t *dst)
{
	VEC a[16], order = SUFFIX(order_in)(p, size);
	size_t i = 0, step = GROUP / p * size, spare = SUFFIX(spare_short)(p, size);

	for (; i + VB + spare <= n; i += VB) {
#pragma GCC unroll 8
		for (size_t r = 0; r < p; r++)
			a[r] = PERMUTE(LOAD_GROUPS(src + i * size + r * step, p * step), order);
		SUFFIX(planes_of_sorted)(a, p);
#pragma GCC unroll 8
		for (size_t r = 0; r < p; r++)
			if (r < size)
				STORE(dst + r * n + i, a[r]);
	}
	shuffle_rest(size, n, i, src, dst);
}

/* Groups are written in ascending order, so each repairs what the one before it overwrote. */
ALWAYS_INLINE void SUFFIX(unshuffle_short)(const size_t p, const size_t size, size_t n,
					   const uint8_t *src, uint8_t *dst)
{
	VEC a[16], order = SUFFIX(order_out)(p, size);
	size_t i = 0, step = GROUP / p * size, spare = SUFFIX(spare_short)(p, size);

	for (; i + VB + spare <= n; i += VB) {
#pragma GCC unroll 8
		for (size_t r = 0; r < p; r++)
			a[r] = LOAD(src + (r < size ? r : 0) * n + i);
		SUFFIX(items_of_planes)(a, p);
#pragma GCC unroll 4
		for (size_t l = 0; l < VB / GROUP; l++)
#pragma GCC unroll 8
			for (size_t r = 0; r < p; r++)
				STORE_GROUP(dst + i * size + (l * p + r) * step,
					    PERMUTE(a[r], order), l);
	}
	unshuffle_rest(size, n, i, src, dst);
}

/* Sizes are constants: computing an order could take longer than a whole small block. */
#define SHORT_SIZES(direction)                                           \
	case 3: SUFFIX(direction##_short)(4, 3, n, src, dst); break;     \
	case 5: SUFFIX(direction##_short)(8, 5, n, src, dst); break;     \
	case 6: SUFFIX(direction##_short)(8, 6, n, src, dst); break;     \
	case 7: SUFFIX(direction##_short)(8, 7, n, src, dst); break;
