#include "fs/dirty/touched.h"

#include "base/bytes.h"
#include "fs/dirty/lists.h"

#include <stdlib.h>

#define KEPT (LISTS_SHORT / sizeof(struct touched_range))

static bool room_for_one(struct touched *t)
{
	if (t->n < t->cap)
		return true;
	if (t->n >= TOUCHED_MAX_RANGES)
		return false;
	uint32_t cap = t->cap ? t->cap * 2 : 64;
	struct touched_range *r = lists_grow(t->range, t->cap * sizeof *r, cap * sizeof *r);
	if (!r)
		return false;
	t->range = r;
	t->cap = cap;
	return true;
}

void touched_add(struct touched *t, uint64_t at, uint64_t len)
{
	if (t->whole)
		return;
	struct touched_range *last = t->n ? &t->range[t->n - 1] : NULL;
	if (last && last->at + last->len == at) {
		last->len += len;
	} else if (room_for_one(t)) {
		t->range[t->n++] = (struct touched_range){at, len};
	} else {
		touched_whole(t);
		return;
	}
	t->bytes += len;
	if (t->bytes > TOUCHED_MAX_BYTES)
		touched_settle(t); /* repeated writes of the same bytes count once */
	if (t->bytes > TOUCHED_MAX_BYTES)
		touched_whole(t);
}

void touched_whole(struct touched *t)
{
	touched_clear(t);
	t->whole = true;
}

void touched_clear(struct touched *t)
{
	if (t->cap > KEPT)
		touched_deinit(t);
	t->n = 0;
	t->bytes = 0;
	t->whole = false;
}

static int by_place(const void *a, const void *b)
{
	uint64_t x = ((const struct touched_range *)a)->at,
		 y = ((const struct touched_range *)b)->at;
	return (x > y) - (x < y);
}

void touched_settle(struct touched *t)
{
	uint32_t n = 0;

	if (t->n > 1)
		qsort(t->range, t->n, sizeof *t->range, by_place);
	t->bytes = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		struct touched_range r = t->range[i], *last = n ? &t->range[n - 1] : NULL;
		if (last && r.at <= last->at + last->len)
			last->len = max_u64(last->len, r.at + r.len - last->at);
		else
			t->range[n++] = r;
	}
	t->n = n;
	for (uint32_t i = 0; i < n; i++)
		t->bytes += t->range[i].len;
}

void touched_deinit(struct touched *t)
{
	lists_free(t->range, t->cap * sizeof *t->range);
	*t = (struct touched){0};
}
