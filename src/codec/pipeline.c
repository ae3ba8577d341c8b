#include "codec/pipeline.h"
#include "codec/chunk.h"
#include "codec/codec.h"
#include "codec/filter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TYPESIZE_MAX CHUNK_MAX_BLOCKSIZE
#define LIST_MAX 100 /* room for the names of all codecs, or all filters */

void pipeline_default(struct pipeline *p)
{
	*p = (struct pipeline){
		.codec = CODEC_ZSTD,
		.level = 1,
		.split_mode = SPLIT_FORWARD,
		.typesize = 1,
	};
}

void pipeline_drop_filters(struct pipeline *p)
{
	memset(p->filter, 0, sizeof p->filter);
	memset(p->meta, 0, sizeof p->meta);
}

static int check_filters(const struct pipeline *p, struct err_reason *why)
{
	uint32_t typesize = p->typesize > CHUNK_MAX_TYPESIZE ? 1 : p->typesize;
	unsigned n = 0, deltas = 0;
	bool deep = false; /* the reference undoes such a delta wrongly: FORMAT.md 18 */
	for (unsigned i = 0; i < FILTER_SLOTS; i++) {
		if (p->filter[i] == FILTER_NONE)
			continue;
		const struct filter *f = filter_by_id(p->filter[i]);
		if (!f || !f->forward)
			return err_refuse(why, "filter %u cannot be written", p->filter[i]);
		const char *text = f->check ? f->check(p->meta[i], typesize) : NULL;
		if (text)
			return err_refuse(why, "%s", text);
		if (p->filter[i] == FILTER_DELTA && ++deltas > 1)
			return err_refuse(why, "two delta filters cannot be undone");
		if (deep)
			return err_refuse(why, "delta after three filters has to be the last");
		deep = p->filter[i] == FILTER_DELTA && n >= 3;
		n++;
	}
	return 0;
}

int pipeline_check(const struct pipeline *p, struct err_reason *why)
{
	const struct codec *codec = codec_by_id(p->codec);
	if (!codec)
		return err_refuse(why, "no codec has the number %u", p->codec);
	if (p->level > PIPELINE_LEVEL_MAX)
		return err_refuse(why, "the level is 0 to %d, not %u", PIPELINE_LEVEL_MAX,
				  p->level);
	if (p->typesize < 1 || p->typesize > TYPESIZE_MAX)
		return err_refuse(why, "typesize %u is out of range", p->typesize);
	if (p->blocksize > CHUNK_MAX_BLOCKSIZE || p->blocksize % p->typesize)
		return err_refuse(why, "blocksize %u: at most %u, a multiple of the typesize",
				  p->blocksize, CHUNK_MAX_BLOCKSIZE);
	if (p->split_mode < SPLIT_ALWAYS || p->split_mode > SPLIT_FORWARD)
		return err_refuse(why, "split mode %u is out of range", p->split_mode);
	if (p->use_dict && !codec->dict_make)
		return err_refuse(why, "%s takes no dictionary", codec->name);
	return check_filters(p, why);
}

/* One term of the text: a name, optionally with a colon and a number. */
struct term {
	struct view name;
	bool has_number;
	long number;
};

static int read_term(const char **text, struct term *t)
{
	size_t n = strcspn(*text, ":+");
	*t = (struct term){.name = view_of(*text, n)};
	*text += n;
	if (**text == ':') {
		const char *from = *text + 1;
		char *end;
		if (!strchr("-0123456789", *from)) /* strtol would accept spaces and a plus */
			return -EINVAL;
		t->has_number = true;
		t->number = strtol(from, &end, 10);
		if (end == from || t->number < INT8_MIN || t->number > (long)TYPESIZE_MAX)
			return -EINVAL;
		*text = end;
	}
	return !n || (**text && **text != '+') ? -EINVAL : 0;
}

/* Appends a name to `list`, as far as there is room. */
static void list_add(char *list, size_t room, const char *name)
{
	size_t n = strlen(list);
	snprintf(list + n, room - n, "%s%s", n ? ", " : "", name);
}

static int refuse_codec(const struct term *t, struct err_reason *why)
{
	const struct codec *codec;
	const char *name = (const char *)t->name.p;
	char known[LIST_MAX] = "store";
	if (filter_by_name(t->name))
		return err_refuse(why, "a codec comes last, as in %.*s+zstd", (int)t->name.n,
				  name);
	for (size_t i = 0; (codec = codec_at(i)); i++)
		list_add(known, sizeof known, codec->name);
	return err_refuse(why, "no codec is called \"%.*s\"; known: %s", (int)t->name.n, name,
			  known);
}

static int refuse_filter(const struct term *t, struct err_reason *why)
{
	const struct filter *f;
	const char *name = (const char *)t->name.p;
	char known[LIST_MAX] = "none";
	if (codec_by_name(t->name) || view_is(t->name, "store"))
		return err_refuse(why, "a codec comes last, and there is one");
	for (size_t i = 0; (f = filter_at(i)); i++)
		if (f->forward)
			list_add(known, sizeof known, f->name);
	return err_refuse(why, "no filter is called \"%.*s\"; known: %s", (int)t->name.n, name,
			  known);
}

static int take_codec(struct pipeline *p, const struct term *t, struct err_reason *why)
{
	if (view_is(t->name, "store")) {
		p->level = 0;
		return t->number ? err_refuse(why, "store has no level") : 0;
	}
	const struct codec *codec = codec_by_name(t->name);
	if (!codec)
		return refuse_codec(t, why);
	if (t->has_number && (t->number < 0 || t->number > PIPELINE_LEVEL_MAX))
		return err_refuse(why, "the level is 0 to %d, not %ld", PIPELINE_LEVEL_MAX,
				  t->number);
	p->codec = codec->id;
	p->level = t->has_number ? (uint8_t)t->number : codec->level;
	return 0;
}

/* p->typesize is 0 until a term names one. */
static int take_typesize(struct pipeline *p, long number, struct err_reason *why)
{
	if (number < 1)
		return err_refuse(why, "typesize %ld is out of range", number);
	if (p->typesize && p->typesize != (uint32_t)number)
		return err_refuse(why, "typesize %u, and %ld: all filters have the same",
				  p->typesize, number);
	p->typesize = (uint32_t)number;
	return 0;
}

static int take_filter(struct pipeline *p, const struct term *t, unsigned slot,
		       struct err_reason *why)
{
	const struct filter *f = view_is(t->name, "none") ? NULL : filter_by_name(t->name);
	if (!f && !view_is(t->name, "none"))
		return refuse_filter(t, why);
	if (slot >= FILTER_SLOTS)
		return err_refuse(why, "more than %d filters", FILTER_SLOTS);
	p->filter[slot] = f ? f->id : FILTER_NONE;
	if (!t->has_number)
		return f && f->takes_param ? err_refuse(why, "%s needs a number", f->name) : 0;
	if (!f || !f->takes_param)
		return take_typesize(p, t->number, why);
	if (t->number > INT8_MAX)
		return err_refuse(why, "%s:%ld is out of range", f->name, t->number);
	p->meta[slot] = (uint8_t)t->number;
	return 0;
}

/* Moves filters to the last slots, as in the reference: a mere convention. */
static void slots_align(struct pipeline *p, unsigned n)
{
	unsigned shift = FILTER_SLOTS - n;
	memmove(p->filter + shift, p->filter, n);
	memmove(p->meta + shift, p->meta, n);
	memset(p->filter, 0, shift);
	memset(p->meta, 0, shift);
}

int pipeline_parse(struct pipeline *p, const char *text, struct err_reason *why)
{
	struct pipeline q = *p;
	struct term t;
	unsigned n = 0;
	pipeline_drop_filters(&q);
	q.typesize = 0;
	for (const char *at = text;; at++) {
		if (read_term(&at, &t) < 0)
			return err_refuse(why, "\"%.60s\": expected NAME[:NUMBER][+...]", text);
		if (!*at)
			break;
		TRY(take_filter(&q, &t, n, why));
		n += !view_is(t.name, "none");
	}
	TRY(take_codec(&q, &t, why));
	slots_align(&q, n);
	if (!q.typesize)
		q.typesize = p->typesize;
	TRY(pipeline_check(&q, why));
	*p = q;
	return 0;
}

/* Appends, as far as there is room. */
__attribute__((format(printf, 2, 3))) static void print(char out[static PIPELINE_TEXT_MAX],
							const char *fmt, ...)
{
	size_t n = strlen(out);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(out + n, PIPELINE_TEXT_MAX - n, fmt, ap);
	va_end(ap);
}

void pipeline_format(const struct pipeline *p, char out[static PIPELINE_TEXT_MAX])
{
	const struct codec *codec = codec_by_id(p->codec);
	bool said = p->typesize == 1; /* the typesize has been named, or need not be */
	out[0] = 0;
	for (unsigned i = 0; i < FILTER_SLOTS; i++) {
		const struct filter *f = filter_by_id(p->filter[i]);
		if (!f)
			continue;
		print(out, "%s", f->name);
		if (f->takes_param)
			print(out, ":%d", (int8_t)p->meta[i]);
		else if (!said)
			print(out, ":%u", p->typesize);
		said = said || !f->takes_param;
		print(out, "+");
	}
	if (!said)
		print(out, "none:%u+", p->typesize);
	if (!p->level || !codec)
		print(out, "store");
	else
		print(out, "%s:%u", codec->name, p->level);
}
