#include "frame/extent.h"

#include "base/buf.h"

#include <assert.h>

void space_init(struct space *sp, uint64_t end)
{
	*sp = (struct space){.end = end, .high = end};
}

void space_deinit(struct space *sp)
{
	mem_free(sp->list);
	*sp = (struct space){0};
}

static struct space_extent *find(struct space *sp, uint64_t at)
{
	for (uint32_t i = sp->n; i-- > 0;)
		if (sp->list[i].at == at)
			return &sp->list[i];
	return NULL;
}

static void erase(struct space *sp, uint32_t i)
{
	sp->list[i] = sp->list[--sp->n];
}

/* Room on the list, so that nothing fails once bytes are handed out. */
static int list_reserve(struct space *sp, uint32_t more)
{
	if (sp->cap - sp->n >= more)
		return 0;
	uint32_t cap = sp->cap ? 2 * sp->cap : 8;
	struct space_extent *list = mem_realloc(sp->list, cap * sizeof *list);
	if (!list)
		return -ENOMEM;
	sp->list = list;
	sp->cap = cap;
	return 0;
}

int space_take_end(struct space *sp, uint64_t len, uint64_t *at)
{
	uint64_t end;
	assert(len > 0);
	if (add_overflows(sp->end, len, &end) || end > INT64_MAX)
		return -EFBIG;
	TRY(list_reserve(sp, 1));
	*at = sp->end;
	sp->list[sp->n++] = (struct space_extent){*at, len, EXTENT_LENT};
	sp->nlent++;
	sp->end = end;
	sp->high = max_u64(sp->high, end);
	return 0;
}

int space_take(struct space *sp, uint64_t len, uint64_t *at)
{
	assert(len > 0);
	TRY(list_reserve(sp, 1));
	for (uint32_t i = 0; i < sp->n; i++) {
		struct space_extent *e = &sp->list[i];
		if (e->state != EXTENT_FREE || e->len < len)
			continue;
		*at = e->at;
		e->at += len;
		e->len -= len;
		if (e->len == 0)
			erase(sp, i);
		sp->list[sp->n++] = (struct space_extent){*at, len, EXTENT_LENT};
		sp->nlent++;
		return 0;
	}
	return space_take_end(sp, len, at);
}

void space_put(struct space *sp, uint64_t at, uint64_t len)
{
	struct space_extent *e = find(sp, at);
	assert(e && e->state == EXTENT_LENT && e->len == len);
	e->state = EXTENT_PUT;
	sp->nlent--;
}

/* Becomes free, joined with free neighbours; free bytes at the very end are let go. */
static void set_free(struct space *sp, struct space_extent *e)
{
	struct space_extent joined = {e->at, e->len, EXTENT_FREE};
	erase(sp, (uint32_t)(e - sp->list));
	for (uint32_t i = 0; i < sp->n;) {
		const struct space_extent *o = &sp->list[i];
		bool before = o->at + o->len == joined.at, after = joined.at + joined.len == o->at;
		if (o->state != EXTENT_FREE || (!before && !after)) {
			i++;
			continue;
		}
		joined.at = before ? o->at : joined.at;
		joined.len += o->len;
		erase(sp, i);
		i = 0;
	}
	if (joined.at + joined.len == sp->end)
		sp->end = joined.at;
	else
		sp->list[sp->n++] = joined; /* erased above: there is room */
}

void space_give(struct space *sp, uint64_t at, uint64_t len)
{
	struct space_extent *e = find(sp, at);
	assert(e && e->state == EXTENT_LENT && e->len == len);
	sp->nlent--;
	set_free(sp, e);
}

void space_drop(struct space *sp, uint64_t at)
{
	struct space_extent *e = find(sp, at);
	if (!e || e->state != EXTENT_PUT)
		return;
	set_free(sp, e);
}

void space_root(struct space *sp)
{
	for (uint32_t i = 0; i < sp->n;)
		if (sp->list[i].state == EXTENT_PUT)
			erase(sp, i);
		else
			i++;
}

void space_cut(struct space *sp, uint64_t end)
{
	assert(sp->nlent == 0);
	for (uint32_t i = 0; i < sp->n;) {
		struct space_extent *e = &sp->list[i];
		assert(e->at >= end || e->at + e->len <= end);
		if (e->at >= end)
			erase(sp, i);
		else
			i++;
	}
	sp->end = sp->high = end;
}
