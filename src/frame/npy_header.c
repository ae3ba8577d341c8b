#include "frame/npy_header.h"

#include "frame/npy_dtype.h"

#include <assert.h>
#include <stdio.h>

#define PREFIX_1 10 /* magic, version, and the length of the rest in 16 bits */
#define PREFIX_3 12 /* the same with 32 bits; the text is UTF-8, in format 1 ISO 8859-1 */
#define ALIGN 64u /* the data starts at a multiple of this */

/* Writes the value of 'descr'; false: the dtype is not one for an .npy file. */
static bool describe(const struct ndarray *a, char *out, size_t room)
{
	uint64_t size = 0;
	if (a->dtype.n && !npy_dtype(a->dtype, out, room, &size))
		return false;
	/*
	 * No dtype, or one whose size is not that of the frame's items, which does occur: opaque
	 * bytes.
	 */
	if (size != a->item)
		snprintf(out, room, "'|V%u'", a->item);
	return true;
}

static size_t print_shape(const struct ndarray *a, char *out, size_t room)
{
	size_t n = (size_t)snprintf(out, room, "(");
	for (int i = 0; i < a->ndim; i++)
		n += (size_t)snprintf(out + n, room - n, i ? ", %llu" : "%llu",
				      (unsigned long long)a->shape[i]);
	return n + (size_t)snprintf(out + n, room - n, a->ndim == 1 ? ",)" : ")");
}

static bool is_ascii(const char *s)
{
	while (*s && (uint8_t)*s < 0x80) /* char is unsigned on some machines */
		s++;
	return *s == 0;
}

int npy_header(const struct ndarray *a, uint8_t out[static NPY_HEADER_MAX])
{
	char descr[NDARRAY_MAX_DTYPE + 8], shape[NDARRAY_MAX_DIM * 24 + 8];
	char dict[NPY_HEADER_MAX - 128];
	if (!describe(a, descr, sizeof descr))
		return UNSUPPORTED("dtype", 0);
	print_shape(a, shape, sizeof shape);
	static const char form[] = "{'descr': %s, 'fortran_order': False, 'shape': %s, }";
	int n = snprintf(dict, sizeof dict, form, descr, shape);
	assert(n > 0 && (size_t)n < sizeof dict);
	size_t prefix = is_ascii(dict) ? PREFIX_1 : PREFIX_3;
	size_t total = ceil_div(prefix + (size_t)n + 1, ALIGN) * ALIGN;
	_Static_assert(NPY_HEADER_MAX <= UINT16_MAX, "format 1.0 has 16 bits for the length");
	assert(total <= NPY_HEADER_MAX);
	memcpy(out, prefix == PREFIX_1 ? "\x93NUMPY\x01\x00" : "\x93NUMPY\x03\x00", 8);
	memset(out + 8, 0, prefix - 8);
	put_le16(out + 8, (uint16_t)(total - prefix));
	memset(out + prefix, ' ', total - prefix);
	memcpy(out + prefix, dict, (size_t)n);
	out[total - 1] = '\n';
	return (int)total;
}
