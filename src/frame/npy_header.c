#include "frame/npy_header.h"

#include "base/utf8.h"
#include "codec/chunk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX 8 /* nesting of fields: the parser recurses */
#define PREFIX_1 10 /* magic, version, and the length of the rest in 16 bits */
#define PREFIX_3 12 /* the same with 32 bits; the text is UTF-8, in format 1 ISO 8859-1 */
#define ALIGN 64u /* the data starts at a multiple of this */
#define ITEM_MAX CHUNK_MAX_NBYTES /* bytes: a chunk has whole items */

struct text {
	const char *p;
	bool bad;
};

static void skip_spaces(struct text *t)
{
	while (*t->p == ' ')
		t->p++;
}

static bool accept(struct text *t, char ch)
{
	skip_spaces(t);
	if (*t->p != ch)
		return false;
	t->p++;
	return true;
}

static void expect(struct text *t, char ch)
{
	if (!accept(t, ch))
		t->bad = true;
}

static uint64_t parse_number(struct text *t)
{
	uint64_t n = 0;
	skip_spaces(t);
	if (*t->p < '0' || *t->p > '9')
		t->bad = true;
	for (; *t->p >= '0' && *t->p <= '9' && n <= ITEM_MAX; t->p++)
		n = n * 10 + (uint64_t)(*t->p - '0');
	t->bad |= n > ITEM_MAX;
	return n;
}

/* The length of an escape sequence after its backslash; 0: not one that Python prints. */
static size_t escape_length(const char *p)
{
	size_t n = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
	if (!*p || !strchr("\\'\"nrtxuU", *p) || strspn(p + 1, "0123456789abcdefABCDEF") < n)
		return 0;
	if (*p == 'U' && strncmp(p + 1, "000", 3) != 0 && strncmp(p + 1, "0010", 4) != 0)
		return 0; /* beyond Unicode */
	return 1 + n;
}

/* The length of the character or escape sequence at p; 0: not legal in a string. */
static size_t letter_length(const char *p)
{
	if (*p == '\\') {
		size_t n = escape_length(p + 1);
		return n ? 1 + n : 0;
	}
	return (uint8_t)*p < 0x20 || *p == 0x7f ? 0 : utf8_length((const uint8_t *)p);
}

/* 'x' or "x"; false: there is no string here. */
static bool parse_string(struct text *t, const char **s, size_t *n)
{
	skip_spaces(t);
	char quote = *t->p;
	if (quote != '\'' && quote != '"')
		return false;
	*s = ++t->p;
	while (*t->p && *t->p != quote) {
		size_t len = letter_length(t->p);
		t->bad |= len == 0;
		t->p += len ? len : 1;
	}
	*n = (size_t)(t->p - *s);
	expect(t, quote);
	return true;
}

/* "[ns]" or "[25s]" after a date: legal units only. */
static bool unit_is_known(const char *s)
{
	static const char *const units[] = {"Y", "M", "W", "D", "h", "m", "s",
					    "ms", "us", "ns", "ps", "fs", "as"};
	if (*s == 0)
		return true;
	if (*s++ != '[')
		return false;
	while (*s >= '0' && *s <= '9')
		s++;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		size_t n = strlen(units[i]);
		if (strncmp(s, units[i], n) == 0 && strcmp(s + n, "]") == 0)
			return true;
	}
	return false;
}

/* Numbers and dates have few sizes; text may have any. */
static bool number_is_known(char kind, unsigned long size)
{
	static const struct {
		char kind;
		uint64_t sizes; /* a bit for each size */
	} known[] = {
		{'b', 1 << 1},
		{'i', 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8},
		{'u', 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8},
		{'f', 1 << 2 | 1 << 4 | 1 << 8 | 1 << 12 | 1 << 16},
		{'c', 1 << 8 | 1 << 16 | 1 << 24 | 1ull << 32},
		{'m', 1 << 8},
		{'M', 1 << 8},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].kind == kind)
			return size <= 32 && known[i].sizes >> size & 1;
	return true;
}

/* The item size of a type such as "<f8"; 0: not one that NumPy reads back. */
static uint64_t simple_size(const char *s, size_t n)
{
	char word[32], *end;
	if (n >= sizeof word || n == 0)
		return 0;
	memcpy(word, s, n);
	word[n] = 0;
	const char *p = word;
	if (strchr("<>|=", *p))
		p++;
	char kind = *p;
	if (kind == 0 || !strchr("biufcmMSaUV?", kind))
		return 0;
	if (kind == '?')
		return p[1] ? 0 : 1;
	if (p[1] < '0' || p[1] > '9')
		return 0;
	unsigned long size = strtoul(p + 1, &end, 10);
	if (size > ITEM_MAX || !(kind == 'm' || kind == 'M' ? unit_is_known(end) : *end == 0))
		return 0;
	if (!number_is_known(kind, size))
		return 0;
	return kind == 'U' ? 4ull * size : size;
}

static uint64_t parse_fields(struct text *t, int depth);

/* A string or a list of fields. */
static uint64_t parse_type(struct text *t, int depth)
{
	const char *s;
	size_t n;
	if (parse_string(t, &s, &n)) {
		uint64_t size = t->bad ? 0 : simple_size(s, n);
		t->bad |= size == 0;
		return size;
	}
	return parse_fields(t, depth + 1);
}

/* How often a field is repeated: "(2, 3)" or "3" after its type. */
static uint64_t parse_repeat(struct text *t)
{
	uint64_t n = 1;
	if (!accept(t, '('))
		return parse_number(t);
	while (!t->bad && !accept(t, ')')) {
		n *= parse_number(t);
		t->bad |= n > ITEM_MAX;
		if (!accept(t, ',')) {
			expect(t, ')');
			break;
		}
	}
	return n;
}

/* ('name', type) or (('title', 'name'), type), with or without a repeat count. */
static uint64_t parse_field(struct text *t, int depth)
{
	const char *s;
	size_t n;
	expect(t, '(');
	if (accept(t, '(')) {
		t->bad |= !parse_string(t, &s, &n);
		expect(t, ',');
		t->bad |= !parse_string(t, &s, &n);
		expect(t, ')');
	} else {
		t->bad |= !parse_string(t, &s, &n);
	}
	expect(t, ',');
	uint64_t size = t->bad ? 0 : parse_type(t, depth);
	if (accept(t, ','))
		size *= parse_repeat(t);
	expect(t, ')');
	return size;
}

static uint64_t parse_fields(struct text *t, int depth)
{
	uint64_t size = 0;
	if (depth > DEPTH_MAX)
		t->bad = true;
	expect(t, '[');
	do {
		if (t->bad)
			return 0;
		size += parse_field(t, depth);
		t->bad |= size > ITEM_MAX;
	} while (accept(t, ','));
	expect(t, ']');
	return size;
}

/* Writes the value of 'descr'; false: the dtype is not one for an .npy file. */
static bool describe(const struct ndarray *a, char *out, size_t room)
{
	int n = (int)a->dtype.n;
	const char *dtype = n ? (const char *)a->dtype.p : "";
	uint64_t size;
	if (*dtype == '[') {
		snprintf(out, room, "%.*s", n, dtype);
		struct text t = {.p = out};
		size = parse_fields(&t, 0);
		skip_spaces(&t);
		if (t.bad || *t.p)
			return false;
	} else {
		size = simple_size(dtype, (size_t)n);
		if (n && size == 0)
			return false;
		snprintf(out, room, "'%.*s'", n, dtype);
	}
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
