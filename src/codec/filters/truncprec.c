/* Truncated precision, FORMAT.md 5.5: floats lose the low bits of their mantissa. */
#include "codec/filter.h"

/* The stored bits of the mantissa: IEEE 754, binary32 and binary64. */
static int mantissa_of(uint32_t typesize)
{
	return typesize == 4 ? 23 : 52;
}

static const char *truncprec_check(uint8_t param, uint32_t typesize)
{
	if (typesize != 4 && typesize != 8)
		return "truncprec needs items of 4 or 8 bytes";
	int bits = mantissa_of(typesize), zeroed = filter_bits_zeroed(param, bits);
	if (zeroed < 0 || zeroed >= bits)
		return "truncprec: more bits than the mantissa has";
	return NULL;
}

static size_t truncprec_forward(const struct kernels *k, const struct filter_arg *arg,
				struct view src, uint8_t *dst)
{
	int bits = mantissa_of(arg->typesize);
	unsigned zeroed = (unsigned)filter_bits_zeroed((uint8_t)arg->param, bits);
	size_t i = 0;
	if (arg->typesize == 4)
		for (; i + 4 <= src.n; i += 4)
			put_le32(dst + i, get_le32(src.p + i) & (uint32_t)(~0u << zeroed));
	else
		for (; i + 8 <= src.n; i += 8)
			put_le64(dst + i, get_le64(src.p + i) & (~0ull << zeroed));
	return i;
}

const struct filter filter_truncprec = {
	.name = "truncprec",
	.what = "floats keep (or, negative, lose) so many bits of mantissa",
	.id = FILTER_TRUNCPREC,
	.takes_param = true,
	.loses = true,
	.check = truncprec_check,
	.forward = truncprec_forward,
};
