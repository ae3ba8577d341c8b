#include "frame/npy_dtype.h"

#include "base/utf8.h"
#include "codec/chunk.h"
#include "frame/ndarray.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX 8 /* nesting of fields: the parser recurses */
#define ITEM_MAX CHUNK_MAX_NBYTES /* bytes: a chunk has whole items */
#define DIGITS "0123456789"

/*
 * The dtype of the frame, and what is made of it for the header: the same text, but for types with
 * gaps between their fields. Of these NumPy prints a dictionary, which an .npy file cannot have: it
 * has a list, with fields without a name for the gaps.
 */
struct text {
	const char *p;	  /* what is parsed next                    */
	const char *from; /* what has been parsed, but not written  */
	char *out;
	size_t n, room; /* of `out` */
	int depth;	/* how many lists and dictionaries are open  */
	bool aligned;	/* does the compiler align the fields in it? */
	bool bad;
};

struct type {
	uint64_t size;
	uint64_t align; /* where the compiler would align it; at least 1 */
};

static const struct type no_type = {0, 1};

static void write_text(struct text *t, const char *s, size_t n)
{
	if (n >= t->room - t->n) {
		t->bad = true;
		return;
	}
	memcpy(t->out + t->n, s, n);
	t->n += n;
	t->out[t->n] = 0;
}

/* What has been parsed since the last time. */
static void write_parsed(struct text *t)
{
	write_text(t, t->from, (size_t)(t->p - t->from));
	t->from = t->p;
}

/* A gap of so many bytes in front of the field that was written from `at` on, or of the end. */
static void write_gap(struct text *t, size_t at, uint64_t bytes)
{
	char gap[48];
	size_t after = t->n - at;
	if (!bytes)
		return;
	size_t n = (size_t)snprintf(gap, sizeof gap, "%s('', '|V%" PRIu64 "')%s",
				    after ? "" : ", ", bytes, after ? ", " : "");
	write_text(t, gap, n);
	if (t->bad)
		return;
	memmove(t->out + at + n, t->out + at, after);
	memcpy(t->out + at, gap, n);
}

static void skip_spaces(struct text *t)
{
	while (*t->p == ' ')
		t->p++;
}

static bool accept(struct text *t, const char *word)
{
	size_t n = strlen(word);
	skip_spaces(t);
	if (strncmp(t->p, word, n) != 0)
		return false;
	t->p += n;
	return true;
}

static void expect(struct text *t, const char *word)
{
	t->bad |= !accept(t, word);
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
	if (!*p || !strchr("\\'\"nrtxuU", *p) || strspn(p + 1, DIGITS "abcdefABCDEF") < n)
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

/* 'x' or "x", without its quotes; NULL: there is no string here. */
static struct view parse_string(struct text *t)
{
	skip_spaces(t);
	char quote = *t->p;
	if (quote != '\'' && quote != '"')
		return (struct view){NULL, 0};
	const char *s = ++t->p;
	while (*t->p && *t->p != quote) {
		size_t len = letter_length(t->p);
		t->bad |= len == 0;
		t->p += len ? len : 1;
	}
	struct view string = view_of(s, (size_t)(t->p - s));
	if (*t->p)
		t->p++;
	else
		t->bad = true;
	return string;
}

static void expect_string(struct text *t)
{
	t->bad |= !parse_string(t).p;
}

/* "[ns]" or "[25s]" after a date, or nothing: legal units only. */
static bool unit_is_known(const char *s)
{
	static const char *const units[] = {"Y]", "M]", "W]", "D]", "h]", "m]", "s]",
					    "ms]", "us]", "ns]", "ps]", "fs]", "as]"};
	if (*s == 0)
		return true;
	if (*s++ != '[')
		return false;
	s += strspn(s, DIGITS);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(s, units[i]) == 0)
			return true;
	return false;
}

/* Numbers and dates have few sizes; text may have any. */
static bool size_is_known(char kind, uint64_t size)
{
	static const struct {
		const char *kinds;
		uint64_t sizes; /* a bit for each; 0: any */
	} known[] = {
		{"SaUV", 0},
		{"b", 1 << 1},
		{"iu", 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8},
		{"f", 1 << 2 | 1 << 4 | 1 << 8 | 1 << 12 | 1 << 16},
		{"c", 1 << 8 | 1 << 16 | 1 << 24 | 1ull << 32},
		{"mM", 1 << 8},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strchr(known[i].kinds, kind))
			return !known[i].sizes || (size <= 32 && known[i].sizes >> size & 1);
	return false;
}

/* Text and opaque bytes stand anywhere, complex numbers as their halves do. */
static uint64_t simple_align(char kind, uint64_t size)
{
	if (strchr("SaV", kind))
		return 1;
	if (kind == 'c')
		size /= 2;
	return kind == 'U' || size == 12 ? 4 : size;
}

/* The type that is called "<f8"; size 0: not one that NumPy reads back. */
static struct type simple_type(struct view name)
{
	char word[32], *end;
	if (name.n >= sizeof word || name.n == 0)
		return no_type;
	memcpy(word, name.p, name.n);
	word[name.n] = 0;
	const char *p = word;
	if (strchr("<>|=", *p))
		p++;
	if (strcmp(p, "?") == 0)
		return (struct type){1, 1};
	char kind = *p++;
	if (kind == 0 || *p < '0' || *p > '9')
		return no_type;
	uint64_t size = strtoul(p, &end, 10);
	if (size > ITEM_MAX || !size_is_known(kind, size))
		return no_type;
	if (!(kind == 'm' || kind == 'M' ? unit_is_known(end) : *end == 0))
		return no_type;
	return (struct type){kind == 'U' ? 4 * size : size, simple_align(kind, size)};
}

static struct type parse_list(struct text *t);
static struct type parse_dict(struct text *t);

/* A string, a list of fields or a dictionary. */
static struct type parse_type(struct text *t)
{
	struct type type = no_type;
	struct view name = parse_string(t);
	if (name.p) {
		type = simple_type(name);
		t->bad |= !type.size;
	} else if (t->depth == DEPTH_MAX) {
		t->bad = true;
	} else {
		t->depth++;
		type = *t->p == '{' ? parse_dict(t) : parse_list(t);
		t->depth--;
	}
	if (!t->aligned)
		type.align = 1;
	return type;
}

/* How often a field is repeated: "(2, 3)" or "3" after its type. */
static uint64_t parse_repeat(struct text *t)
{
	uint64_t n = 1;
	if (!accept(t, "("))
		return parse_number(t);
	while (!t->bad && !accept(t, ")")) {
		n *= parse_number(t);
		t->bad |= n > ITEM_MAX || (!accept(t, ",") && *t->p != ')');
	}
	return n;
}

/* ('name', type) or (('title', 'name'), type), with or without a repeat count. */
static struct type parse_field(struct text *t)
{
	expect(t, "(");
	if (accept(t, "(")) {
		expect_string(t);
		expect(t, ",");
		expect_string(t);
		expect(t, ")");
	} else {
		expect_string(t);
	}
	expect(t, ",");
	struct type type = parse_type(t);
	if (accept(t, ","))
		type.size *= parse_repeat(t);
	expect(t, ")");
	return type;
}

/* Enters a field that lies at `offset` and was written from `at` on, and the gap before it. */
static void enter(struct text *t, struct type *all, struct type field, uint64_t offset, size_t at)
{
	t->bad |= offset < all->size;	/* in another order, or one over the other */
	t->bad |= offset % field.align; /* NumPy refuses it, too: the field was packed */
	if (t->bad)
		return;
	write_gap(t, at, offset - all->size);
	all->size = offset + field.size;
	all->align = max_u64(all->align, field.align);
	t->bad |= all->size > ITEM_MAX;
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
	return ceil_div(n, align) * align;
}

static struct type parse_list(struct text *t)
{
	struct type all = no_type;
	expect(t, "[");
	do {
		skip_spaces(t);
		write_parsed(t);
		size_t at = t->n;
		struct type field = parse_field(t);
		write_parsed(t);
		enter(t, &all, field, align_up(all.size, field.align), at);
	} while (!t->bad && accept(t, ","));
	uint64_t end = align_up(all.size, all.align);
	write_gap(t, t->n, end - all.size);
	expect(t, "]");
	all.size = end;
	return all;
}

/* A dictionary of lists, one item a field each, which are read side by side. */
struct dict {
	const char *names, *formats, *offsets; /* the next item of each list      */
	const char *titles;		       /* NULL: there are none            */
	bool last;			       /* the next items are the last ones */
	uint64_t size;
	bool aligned;
};

/* Returns where the items of the list under this key begin; NULL: there is another key. */
static const char *skip_list(struct text *t, const char *key)
{
	if (!accept(t, key))
		return NULL;
	expect(t, "[");
	const char *first = t->p;
	for (int open = 1; open && *t->p;) {
		open += (*t->p == '[') - (*t->p == ']');
		if (!strchr("'\"", *t->p))
			t->p++;
		else /* with brackets in it, maybe */
			expect_string(t);
	}
	expect(t, ",");
	return first;
}

/* Finds its parts, in the order in which NumPy prints them. */
static struct dict find_parts(struct text *t)
{
	struct dict d = {0};
	expect(t, "{");
	d.names = skip_list(t, "'names':");
	d.formats = skip_list(t, "'formats':");
	d.offsets = skip_list(t, "'offsets':");
	d.titles = skip_list(t, "'titles':");
	t->bad |= !d.names || !d.formats || !d.offsets;
	expect(t, "'itemsize':");
	d.size = parse_number(t);
	if (accept(t, ",")) {
		d.aligned = true;
		expect(t, "'aligned': True");
	}
	expect(t, "}");
	return d;
}

static void begin_item(struct text *t, const char *item)
{
	t->p = item;
	skip_spaces(t);
	t->from = t->p;
}

static void end_item(struct text *t, const struct dict *d, const char **item)
{
	expect(t, d->last ? "]" : ",");
	*item = t->p;
}

static uint64_t parse_offset(struct text *t, struct dict *d)
{
	begin_item(t, d->offsets);
	uint64_t offset = parse_number(t);
	skip_spaces(t);
	d->last = *t->p == ']';
	end_item(t, d, &d->offsets);
	return offset;
}

/* 'name' or ('title', 'name'). */
static void write_name(struct text *t, struct dict *d)
{
	bool titled = false;
	if (d->titles) {
		begin_item(t, d->titles);
		titled = !accept(t, "None");
		if (titled) {
			expect_string(t);
			write_text(t, "(", 1);
			write_parsed(t);
			write_text(t, ", ", 2);
		}
		end_item(t, d, &d->titles);
	}
	begin_item(t, d->names);
	expect_string(t);
	write_parsed(t);
	end_item(t, d, &d->names);
	if (titled)
		write_text(t, ")", 1);
}

/* type, or (type, repeat count), which goes into the field without these brackets. */
static struct type write_format(struct text *t, struct dict *d)
{
	begin_item(t, d->formats);
	bool repeated = accept(t, "(");
	if (repeated)
		begin_item(t, t->p);
	struct type type = parse_type(t);
	if (repeated) {
		expect(t, ",");
		type.size *= parse_repeat(t);
	}
	write_parsed(t);
	if (repeated)
		expect(t, ")");
	end_item(t, d, &d->formats);
	return type;
}

static void write_field(struct text *t, struct dict *d, struct type *all)
{
	size_t at = t->n;
	uint64_t offset = parse_offset(t, d);
	write_text(t, "(", 1);
	write_name(t, d);
	write_text(t, ", ", 2);
	struct type type = write_format(t, d);
	write_text(t, ")", 1);
	enter(t, all, type, offset, at);
}

static struct type parse_dict(struct text *t)
{
	struct type all = no_type;
	bool outside = t->aligned;
	write_parsed(t);
	struct dict d = find_parts(t);
	const char *end = t->p;
	t->aligned |= d.aligned;
	write_text(t, "[", 1);
	while (!t->bad && !d.last) {
		write_field(t, &d, &all);
		if (!d.last)
			write_text(t, ", ", 2);
	}
	t->bad |= d.size < all.size || d.size % all.align;
	if (t->bad)
		return no_type;
	write_gap(t, t->n, d.size - all.size);
	write_text(t, "]", 1);
	t->p = t->from = end;
	t->aligned = outside;
	all.size = d.size;
	return all;
}

bool npy_dtype(struct view dtype, char *out, size_t room, uint64_t *size)
{
	char text[NDARRAY_MAX_DTYPE];
	const char *name = (const char *)dtype.p;
	if (*name != '[' && *name != '{') {
		*size = simple_type(dtype).size;
		snprintf(out, room, "'%.*s'", (int)dtype.n, name);
		return *size > 0;
	}
	snprintf(text, sizeof text, "%.*s", (int)dtype.n, name);
	struct text t = {.p = text, .from = text, .out = out, .room = room};
	*size = parse_type(&t).size;
	skip_spaces(&t);
	write_parsed(&t);
	return !t.bad && !*t.p;
}
