#include "fs/dirty/pages.h"

#include "base/buf.h"

#include <assert.h>
#include <string.h>

uint32_t pages_from(const struct dirty_pages *d, uint32_t at)
{
	uint32_t lo = 0, hi = d->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (d->page[mid].at + DIRTY_PAGE <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool pages_has(const struct dirty_pages *d, uint32_t i, uint32_t at)
{
	return i < d->n && d->page[i].at <= at;
}

bool pages_cover(const struct dirty_pages *d, uint32_t lo, uint32_t hi)
{
	uint32_t first = lo / DIRTY_PAGE, end = (hi - 1) / DIRTY_PAGE + 1;

	assert(lo < hi);
	return pages_from(d, end * DIRTY_PAGE) - pages_from(d, lo) == end - first;
}

bool pages_touch(const struct dirty_pages *d, uint32_t lo, uint32_t hi)
{
	uint32_t i = pages_from(d, lo);
	return i < d->n && d->page[i].at < hi;
}

bool pages_agree(const struct dirty_pages *d, uint32_t lo, struct view v)
{
	uint32_t hi = lo + (uint32_t)v.n;

	for (uint32_t i = pages_from(d, lo); i < d->n && d->page[i].at < hi; i++) {
		uint32_t at = d->page[i].at;
		uint32_t from = at > lo ? at : lo, to = (uint32_t)min_u64(at + DIRTY_PAGE, hi);
		if (memcmp(v.p + (from - lo), d->page[i].p + (from - at), to - from) != 0)
			return false;
	}
	return true;
}

void pages_overlay(const struct dirty_pages *d, uint32_t lo, struct span dst)
{
	uint32_t hi = lo + (uint32_t)dst.n;

	for (uint32_t i = pages_from(d, lo); i < d->n && d->page[i].at < hi; i++) {
		uint32_t at = d->page[i].at;
		uint32_t from = at > lo ? at : lo, to = (uint32_t)min_u64(at + DIRTY_PAGE, hi);
		memcpy(dst.p + (from - lo), d->page[i].p + (from - at), to - from);
	}
}

int pages_reserve(struct dirty_pages *d, uint32_t more)
{
	if (d->n + more <= d->cap)
		return 0;
	uint32_t cap = (uint32_t)max_u64(d->cap ? d->cap * 2 : 4, d->n + more);
	struct dirty_page *grown = mem_realloc(d->page, cap * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	d->page = grown;
	d->cap = cap;
	return 0;
}

void pages_insert(struct dirty_pages *d, uint32_t i, struct dirty_page page)
{
	assert(d->n < d->cap);
	memmove(d->page + i + 1, d->page + i, (d->n - i) * sizeof *d->page);
	d->page[i] = page;
	d->n++;
}

void pages_give(struct dirty_pages *from, struct dirty_pages *to)
{
	for (uint32_t k = 0; k < from->n; k++) {
		uint32_t i = pages_from(to, from->page[k].at);
		if (pages_has(to, i, from->page[k].at))
			continue;
		pages_insert(to, i, from->page[k]);
		from->page[k].p = NULL;
	}
}

void pages_drop(struct dirty_pages *d, uint32_t first)
{
	for (uint32_t i = first; i < d->n; i++)
		mem_free(d->page[i].p);
	d->n = (uint32_t)min_u64(d->n, first);
	if (d->n)
		return;
	mem_free(d->page);
	d->page = NULL;
	d->cap = 0;
}

size_t pages_memory(const struct dirty_pages *d)
{
	return d->n * (size_t)DIRTY_PAGE + d->cap * sizeof *d->page;
}
