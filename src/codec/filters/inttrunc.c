/* Truncated integers, FORMAT.md 5.6: the low bits of each word become zero. */
#include "codec/filter.h"

static const char *inttrunc_check(uint8_t param, uint32_t typesize)
{
	if (typesize != 1 && typesize != 2 && typesize != 4 && typesize != 8)
		return "inttrunc needs items of 1, 2, 4 or 8 bytes";
	int bits = 8 * (int)typesize, zeroed = filter_bits_zeroed(param, bits);
	if (zeroed < 0 || zeroed >= bits)
		return "inttrunc: more bits than an item has";
	return NULL;
}

static size_t inttrunc_forward(const struct kernels *k, const struct filter_arg *arg,
			       struct view src, uint8_t *dst)
{
	int bits = 8 * (int)arg->typesize;
	unsigned zeroed = (unsigned)filter_bits_zeroed((uint8_t)arg->param, bits);
	uint8_t mask[8];
	put_le64(mask, ~0ull << zeroed);
	/* Repeats the mask of one word to fill 8 bytes. */
	for (unsigned i = arg->typesize; i < 8; i++)
		mask[i] = mask[i - arg->typesize];
	uint64_t wide = get_le64(mask);
	size_t i = 0, whole = src.n / arg->typesize * arg->typesize;
	for (; i + 8 <= whole; i += 8)
		put_le64(dst + i, get_le64(src.p + i) & wide);
	for (; i < whole; i++)
		dst[i] = src.p[i] & mask[i % 8];
	return whole;
}

const struct filter filter_inttrunc = {
	.name = "inttrunc",
	.what = "integers keep (or, negative, lose) so many bits",
	.id = FILTER_INTTRUNC,
	.takes_param = true,
	.loses = true,
	.check = inttrunc_check,
	.forward = inttrunc_forward,
};
