#include "frame/format/trailer.h"

#include "frame/format/msgpack.h"

#include <assert.h>

#define TRAILER_BETA_LEAST 30
#define MAP_AT 6  /* 94 01 93 CD size size DE */
#define CD_AT 3   /* the map's size counts from here */

/* Bytes of a marker and its number: 16 bits for a map or array, 32 for a content or offset. */
#define MARK_16 3
#define MARK_32 5

/* Bytes of a name in the map, including its offset. */
static size_t name_length(const char *name)
{
	return 1 + strlen(name) + MARK_32;
}

int trailer_parse_end(struct frame_info *info, struct view end)
{
	assert(end.n == TRAILER_END);
	if (end.p[0] != MSGPACK_U32)
		return CORRUPT("no trailer at the end of the frame", end.p[0]);
	uint32_t len = get_be32(end.p + 1);
	uint32_t least = info->beta ? TRAILER_BETA_LEAST : TRAILER_LEAST;
	if (len < least || len > INT32_MAX || len > info->frame_len - info->header_len)
		return CORRUPT("length of the trailer", len);
	info->trailer_len = len;
	return 0;
}

int trailer_parse(struct meta *m, struct view trailer)
{
	assert(trailer.n >= TRAILER_LEAST);
	return meta_parse(m, trailer, MAP_AT, META_VL_MAX);
}

static bool is_note(const struct meta_entry *e)
{
	return strcmp(e->name, TRAILER_NOTE) == 0;
}

uint32_t trailer_others(const struct meta *m)
{
	return m->n - (meta_find(m, TRAILER_NOTE) != NULL);
}

/* Bytes up to the end of the map. */
static size_t map_end(const struct meta *m, size_t note)
{
	size_t end = MAP_AT + MARK_16 + (note ? name_length(TRAILER_NOTE) : 0);
	for (uint32_t i = 0; i < m->n; i++)
		if (!is_note(&m->entry[i]))
			end += name_length(m->entry[i].name);
	return end;
}

size_t trailer_length(const struct meta *m, size_t note)
{
	size_t len = map_end(m, note) + MARK_16;
	for (uint32_t i = 0; i < m->n; i++)
		if (!is_note(&m->entry[i]))
			len += MARK_32 + m->entry[i].content.n;
	return len + (note ? MARK_32 + note : 0) + TRAILER_END;
}

/* Writes one entry: its name to the map, its content to the end. */
static void put_entry(uint8_t *trailer, size_t *map, size_t *end, const char *name,
		      struct view content)
{
	size_t len = strlen(name);
	uint8_t *p = trailer + *map;
	*p++ = (uint8_t)(MSGPACK_FIXSTR | len);
	memcpy(p, name, len);
	p += len;
	*p++ = MSGPACK_I32;
	put_be32(p, (uint32_t)*end);
	*map += name_length(name);
	p = trailer + *end;
	*p++ = MSGPACK_BIN32;
	put_be32(p, (uint32_t)content.n);
	if (content.n)
		memcpy(p + 4, content.p, content.n);
	*end += MARK_32 + content.n;
}

int trailer_append(struct buf *out, const struct meta *m, struct view note)
{
	uint32_t n = trailer_others(m) + (note.n > 0);
	size_t len = trailer_length(m, note.n), map = MAP_AT + MARK_16, at = map_end(m, note.n);
	TRY(buf_reserve(out, out->n + len));
	uint8_t *p = out->p + out->n;
	const uint8_t head[] = {MSGPACK_FIXARRAY | 4, 1, MSGPACK_FIXARRAY | 3, MSGPACK_U16, 0, 0,
				MSGPACK_MAP16};
	memcpy(p, head, sizeof head);
	put_be16(p + CD_AT + 1, (uint16_t)(at - CD_AT));
	put_be16(p + MAP_AT + 1, (uint16_t)n);
	p[at] = MSGPACK_ARRAY16;
	put_be16(p + at + 1, (uint16_t)n);
	at += MARK_16;
	for (uint32_t i = 0; i < m->n; i++)
		if (!is_note(&m->entry[i]))
			put_entry(p, &map, &at, m->entry[i].name, m->entry[i].content);
	if (note.n)
		put_entry(p, &map, &at, TRAILER_NOTE, note);
	p[at] = MSGPACK_U32;
	put_be32(p + at + 1, (uint32_t)len);
	assert(at + TRAILER_END == len);
	out->n += len;
	trailer_set_fingerprint(span_of(p, len), (struct fingerprint){0});
	return 0;
}

bool trailer_has_fingerprint(struct view trailer)
{
	assert(trailer.n >= TRAILER_PRINT);
	const uint8_t *p = trailer.p + trailer.n - TRAILER_PRINT;
	/* The type has to be checked: D8 06 occurs in every header, and so in every note. */
	return p[0] == MSGPACK_FIXEXT16 && p[1] <= TRAILER_TYPE_MOST;
}

struct fingerprint trailer_fingerprint(struct view trailer)
{
	assert(trailer.n >= TRAILER_PRINT);
	const uint8_t *p = trailer.p + trailer.n - TRAILER_PRINT;
	if (p[0] != MSGPACK_FIXEXT16)
		return (struct fingerprint){0};
	return (struct fingerprint){p[1], get_be64(p + 2), get_be64(p + 10)};
}

void trailer_set_fingerprint(struct span trailer, struct fingerprint fp)
{
	assert(trailer.n >= TRAILER_PRINT);
	uint8_t *p = trailer.p + trailer.n - TRAILER_PRINT;
	p[0] = MSGPACK_FIXEXT16;
	p[1] = fp.type;
	put_be64(p + 2, fp.hash);
	put_be64(p + 10, fp.word);
}
