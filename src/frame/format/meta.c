#include "frame/format/meta.h"

#include "base/buf.h"
#include "frame/format/msgpack.h"

#include <assert.h>
#include <stdlib.h>

static int parse_entry(struct meta_entry *e, struct view section, struct cursor *c)
{
	struct view name = msgpack_fixstr(c);
	int32_t off = msgpack_i32(c);
	if (c->bad)
		return CORRUPT("metalayer map is cut or has wrong markers", c->at);
	if (memchr(name.p, 0, name.n))
		return CORRUPT("metalayer name holds a NUL", c->at);
	if (off < 0 || (size_t)off >= section.n)
		return CORRUPT("metalayer lies outside its section", off);
	memcpy(e->name, name.p, name.n);
	struct cursor at = cursor_of(view_from(section, (size_t)off));
	e->content = msgpack_bytes32(&at, MSGPACK_BIN32);
	if (at.bad)
		return CORRUPT("metalayer content is cut or has a wrong marker", off);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts: a trailer may have thousands of names, so comparing all pairs would be slow. */
static int reject_duplicates(const struct meta *m)
{
	const char **names = mem_zalloc_array(m->n, sizeof *names);
	if (!names)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->n; i++)
		names[i] = m->entry[i].name;
	qsort(names, m->n, sizeof *names, compare_names);
	bool twice = false;
	for (uint32_t i = 1; i < m->n; i++)
		twice |= strcmp(names[i - 1], names[i]) == 0;
	mem_free(names);
	return twice ? CORRUPT("two metalayers have one name", m->n) : 0;
}

int meta_parse(struct meta *m, struct view section, size_t at, uint32_t max)
{
	assert(!m->entry && m->n == 0);
	assert(at <= section.n);
	struct cursor c = cursor_of(view_from(section, at));
	uint32_t n = msgpack_map16(&c);
	if (c.bad)
		return CORRUPT("no metalayer map", at);
	if (n > max)
		return CORRUPT("too many metalayers", n);
	if (n == 0)
		return 0;
	m->entry = mem_zalloc_array(n, sizeof *m->entry);
	if (!m->entry)
		return -ENOMEM;
	for (m->n = 0; m->n < n; m->n++)
		TRY(parse_entry(&m->entry[m->n], section, &c));
	return reject_duplicates(m);
}

void meta_deinit(struct meta *m)
{
	mem_free(m->entry);
	*m = (struct meta){0};
}

const struct meta_entry *meta_find(const struct meta *m, const char *name)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (strcmp(m->entry[i].name, name) == 0)
			return &m->entry[i];
	return NULL;
}
