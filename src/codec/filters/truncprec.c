/* Truncated precision, FORMAT.md 5.5: floats lose the low bits of their mantissa. */
#include "codec/filter.h"

static int mantissa_of(uint32_t typesize)
{
	return typesize == 4 ? 23 : 52;
}

static int bits_zeroed(uint8_t param, uint32_t typesize)
{
	int m = (int8_t)param;
	return m >= 0 ? mantissa_of(typesize) - m : -m;
}

static const char *truncprec_check(uint8_t param, uint32_t typesize)
{
	if (typesize != 4 && typesize != 8)
		return "truncprec needs items of 4 or 8 bytes";
	int zeroed = bits_zeroed(param, typesize);
	if (zeroed < 0 || zeroed >= mantissa_of(typesize))
		return "truncprec: more bits than the mantissa has";
	return NULL;
}

static void truncprec_forward(const struct kernels *k, const struct filter_arg *arg,
			      struct view src, uint8_t *dst)
{
	unsigned zeroed = (unsigned)bits_zeroed((uint8_t)arg->param, arg->typesize);
	size_t i = 0;
	if (arg->typesize == 4)
		for (; i + 4 <= src.n; i += 4)
			put_le32(dst + i, get_le32(src.p + i) & (uint32_t)(~0u << zeroed));
	else
		for (; i + 8 <= src.n; i += 8)
			put_le64(dst + i, get_le64(src.p + i) & (~0ull << zeroed));
	memcpy(dst + i, src.p + i, src.n - i);
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
