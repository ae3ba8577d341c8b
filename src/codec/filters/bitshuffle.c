/*
 * Bit shuffle, FORMAT.md 5.3: groups bit b of byte j of all items, for as many items as make whole
 * bytes. Blosc1 leaves a block alone if its number of items is not a multiple of 8.
 */
#include "codec/filter.h"

static size_t items_of(const struct filter_arg *arg, size_t len)
{
	size_t n = len / arg->typesize;
	if (arg->blosc1)
		return n % 8 ? 0 : n;
	return n & ~(size_t)7;
}

static size_t bitshuffle_forward(const struct kernels *k, const struct filter_arg *arg,
				 struct view src, uint8_t *dst)
{
	size_t n = items_of(arg, src.n);
	k->bitshuffle(arg->typesize, n, src.p, dst);
	return n * arg->typesize;
}

static size_t bitshuffle_backward(const struct kernels *k, const struct filter_arg *arg,
				  struct view src, uint8_t *dst)
{
	size_t n = items_of(arg, src.n);
	k->bitunshuffle(arg->typesize, n, src.p, dst);
	return n * arg->typesize;
}

const struct filter filter_bitshuffle = {
	.name = "bitshuffle",
	.what = "bit b of byte j of all items together",
	.id = FILTER_BITSHUFFLE,
	.forward = bitshuffle_forward,
	.backward = bitshuffle_backward,
};
