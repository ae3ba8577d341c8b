#include "frame/npy_dtype.h"

#include "base/utf8.h"
#include "codec/chunk.h"
#include "frame/ndarray.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX 8 /* nesting of fields: the parser recurses */
#define ITEM_MAX CHUNK_MAX_NBYTES /* bytes: a chunk has whole items */

/*
 * The dtype of the frame, and what is made of it for the header: the same text, but for types with
 * gaps between their fields. Of these NumPy prints a dictionary, which an .npy file cannot have: it
 * has a list, with fields without a name for the gaps.
 */
struct text {
	const char *p;
	const char *from; /* what lies before it is in `out`, if it shall be */
	char *out;	  /* NULL: only looking ahead */
	size_t n, room;
	bool bad;
};

struct type {
	uint64_t size;
	uint64_t align; /* where the compiler would align it; at least 1 */
};

static void write_text(struct text *t, const char *s, size_t n)
{
	if (!t->out)
		return;
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

/* A gap of so many bytes in front of what was written from `at` on. */
static void write_gap(struct text *t, size_t at, uint64_t bytes)
{
	char gap[48];
	size_t after = t->n - at;
	size_t n = (size_t)snprintf(gap, sizeof gap, "('', '|V%" PRIu64 "')%s", bytes,
				    after ? ", " : "");
	if (!bytes)
		return;
	write_text(t, gap, n);
	if (!t->out || t->bad)
		return;
	memmove(t->out + at + n, t->out + at, after);
	memcpy(t->out + at, gap, n);
}

static void write_last_gap(struct text *t, uint64_t bytes)
{
	if (bytes)
		write_text(t, ", ", 2);
	write_gap(t, t->n, bytes);
}

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

/* Text, truth values and opaque bytes stand anywhere, complex numbers as their halves do. */
static uint64_t simple_align(char kind, uint64_t size)
{
	if (strchr("SaVb?", kind))
		return 1;
	if (kind == 'c')
		size /= 2;
	return kind == 'U' || size == 12 ? 4 : size;
}

/* The type that is called "<f8"; size 0: not one that NumPy reads back. */
static struct type simple_type(const char *s, size_t n)
{
	struct type none = {0, 1};
	char word[32], *end;
	if (n >= sizeof word || n == 0)
		return none;
	memcpy(word, s, n);
	word[n] = 0;
	const char *p = word;
	if (strchr("<>|=", *p))
		p++;
	char kind = *p;
	if (kind == 0 || !strchr("biufcmMSaUV?", kind))
		return none;
	if (kind == '?')
		return (struct type){p[1] ? 0 : 1, 1};
	if (p[1] < '0' || p[1] > '9')
		return none;
	unsigned long size = strtoul(p + 1, &end, 10);
	if (size > ITEM_MAX || !(kind == 'm' || kind == 'M' ? unit_is_known(end) : *end == 0))
		return none;
	if (!number_is_known(kind, size))
		return none;
	return (struct type){kind == 'U' ? 4ull * size : size, simple_align(kind, size)};
}

/* How the types below are parsed: nested how deep, and does the compiler align their fields? */
struct nesting {
	int depth;
	bool aligned;
};

static struct type parse_fields(struct text *t, struct nesting in);
static struct type parse_dict(struct text *t, struct nesting in);

/* A string, a list of fields or a dictionary. */
static struct type parse_type(struct text *t, struct nesting in)
{
	const char *s;
	size_t n;
	struct type none = {0, 1};
	if (parse_string(t, &s, &n)) {
		struct type type = t->bad ? none : simple_type(s, n);
		t->bad |= type.size == 0;
		return type;
	}
	in.depth++;
	t->bad |= in.depth > DEPTH_MAX;
	if (t->bad)
		return none;
	return *t->p == '{' ? parse_dict(t, in) : parse_fields(t, in);
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
static struct type parse_field(struct text *t, struct nesting in)
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
	struct type type = {0, 1};
	if (!t->bad)
		type = parse_type(t, in);
	if (accept(t, ','))
		type.size *= parse_repeat(t);
	expect(t, ')');
	return type;
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
	return ceil_div(n, align) * align;
}

static struct type parse_fields(struct text *t, struct nesting in)
{
	struct type all = {0, 1};
	expect(t, '[');
	do {
		if (t->bad)
			return all;
		skip_spaces(t);
		write_parsed(t);
		size_t at = t->n;
		struct type one = parse_field(t, in);
		write_parsed(t);
		if (in.aligned) {
			write_gap(t, at, align_up(all.size, one.align) - all.size);
			all.size = align_up(all.size, one.align);
			all.align = max_u64(all.align, one.align);
		}
		all.size += one.size;
		t->bad |= all.size > ITEM_MAX;
	} while (accept(t, ','));
	uint64_t end = align_up(all.size, all.align);
	write_last_gap(t, end - all.size);
	expect(t, ']');
	all.size = end;
	return all;
}

/* A dictionary of lists, one item a field each, which are read side by side. */
struct dict {
	const char *names, *formats, *offsets; /* the next item of each list */
	const char *titles;		       /* NULL: there are none      */
	uint64_t size;
	bool aligned;
};

static bool accept_word(struct text *t, const char *word)
{
	skip_spaces(t);
	size_t n = strlen(word);
	if (strncmp(t->p, word, n) != 0)
		return false;
	t->p += n;
	return true;
}

static void parse_name(struct text *t, struct nesting in)
{
	const char *s;
	size_t n;
	(void)in;
	t->bad |= !parse_string(t, &s, &n);
}

static void parse_title(struct text *t, struct nesting in)
{
	if (!accept_word(t, "None"))
		parse_name(t, in);
}

static void parse_offset(struct text *t, struct nesting in)
{
	(void)in;
	parse_number(t);
}

/* type, or (type, repeat count); written as it stands in the field of a list. */
static struct type write_format(struct text *t, struct nesting in)
{
	bool tuple = accept(t, '(');
	skip_spaces(t);
	t->from = t->p;
	struct type type = parse_type(t, in);
	if (tuple) {
		expect(t, ',');
		type.size *= t->bad ? 0 : parse_repeat(t);
	}
	write_parsed(t);
	if (tuple)
		expect(t, ')');
	return type;
}

static void parse_format(struct text *t, struct nesting in)
{
	(void)write_format(t, in);
}

/* A list under this key; returns where its first item is. */
static const char *skip_list(struct text *t, const char *key,
			     void (*item)(struct text *, struct nesting), struct nesting in)
{
	if (!accept_word(t, key))
		t->bad = true;
	expect(t, '[');
	const char *first = t->p;
	do {
		if (t->bad)
			return first;
		item(t, in);
	} while (accept(t, ','));
	expect(t, ']');
	return first;
}

/* Finds its parts, in the order in which NumPy prints them. */
static struct dict look_at_dict(struct text *t, struct nesting in)
{
	struct dict d = {0};
	expect(t, '{');
	d.names = skip_list(t, "'names':", parse_name, in);
	expect(t, ',');
	d.formats = skip_list(t, "'formats':", parse_format, in);
	expect(t, ',');
	d.offsets = skip_list(t, "'offsets':", parse_offset, in);
	expect(t, ',');
	skip_spaces(t);
	if (strncmp(t->p, "'titles':", 9) == 0) {
		d.titles = skip_list(t, "'titles':", parse_title, in);
		expect(t, ',');
	}
	t->bad |= !accept_word(t, "'itemsize':");
	d.size = parse_number(t);
	if (accept(t, ',')) {
		d.aligned = accept_word(t, "'aligned': True");
		t->bad |= !d.aligned;
	}
	expect(t, '}');
	return d;
}

/* 'name' or ('title', 'name'), from their lists. */
static void write_name(struct text *t, struct dict *d, struct nesting in)
{
	bool titled = false;
	if (d->titles) {
		t->p = d->titles;
		skip_spaces(t);
		titled = *t->p != 'N';
		t->from = t->p;
		parse_title(t, in);
		d->titles = t->p;
		if (titled) {
			write_text(t, "(", 1);
			write_parsed(t);
			write_text(t, ", ", 2);
		}
		accept(t, ',');
		d->titles = t->p;
	}
	t->p = d->names;
	skip_spaces(t);
	t->from = t->p;
	parse_name(t, in);
	write_parsed(t);
	if (titled)
		write_text(t, ")", 1);
}

/* The next field, which begins at `at` or behind a gap. False: it was the last one. */
static bool write_next(struct text *t, struct dict *d, struct type *all, struct nesting in)
{
	t->p = d->offsets;
	uint64_t at = parse_number(t);
	bool more = accept(t, ',');
	d->offsets = t->p;
	t->bad |= at < all->size; /* in another order, or one over the other */
	size_t begin = t->n;
	write_text(t, "(", 1);
	write_name(t, d, in);
	t->bad |= accept(t, ',') != more;
	d->names = t->p;
	write_text(t, ", ", 2);
	t->p = d->formats;
	struct type type = write_format(t, in);
	t->bad |= accept(t, ',') != more;
	t->bad |= in.aligned && at % type.align; /* nor would NumPy: the field was packed */
	d->formats = t->p;
	write_text(t, ")", 1);
	if (t->bad)
		return false;
	write_gap(t, begin, at - all->size);
	all->size = at + type.size;
	all->align = max_u64(all->align, type.align);
	if (more)
		write_text(t, ", ", 2);
	return more;
}

static struct type parse_dict(struct text *t, struct nesting in)
{
	struct type all = {0, 1};
	write_parsed(t);
	struct text ahead = {.p = t->p, .from = t->p};
	struct dict d = look_at_dict(&ahead, in);
	t->bad |= ahead.bad;
	in.aligned |= d.aligned;
	write_text(t, "[", 1);
	while (!t->bad && write_next(t, &d, &all, in))
		;
	t->bad |= d.size < all.size || d.size > ITEM_MAX;
	t->bad |= in.aligned && d.size % all.align;
	if (t->bad)
		return all;
	write_last_gap(t, d.size - all.size);
	write_text(t, "]", 1);
	t->p = t->from = ahead.p;
	return (struct type){d.size, in.aligned ? all.align : 1};
}

bool npy_dtype(struct view dtype, char *out, size_t room, uint64_t *size)
{
	char text[NDARRAY_MAX_DTYPE];
	const char *name = (const char *)dtype.p;
	if (*name != '[' && *name != '{') {
		*size = simple_type(name, dtype.n).size;
		snprintf(out, room, "'%.*s'", (int)dtype.n, name);
		return *size > 0;
	}
	snprintf(text, sizeof text, "%.*s", (int)dtype.n, name);
	struct text t = {.p = text, .from = text, .out = out, .room = room};
	*size = parse_type(&t, (struct nesting){0}).size;
	skip_spaces(&t);
	write_parsed(&t);
	return !t.bad && !*t.p;
}
