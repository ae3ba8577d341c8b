#include "fs/dirty/missing.h"

#include "base/bytes.h"
#include "fs/dirty/lists.h"

#include <assert.h>

static struct missing_range *ranges(struct missing *m)
{
	return m->many ? m->many : m->few;
}

static struct missing_range range_at(const struct missing *m, uint32_t i)
{
	return m->many ? m->many[i] : m->few[i];
}

/* The first range that ends at or after `at`, by binary search; n: none. */
static uint32_t range_from(const struct missing *m, uint64_t at)
{
	uint32_t lo = 0, hi = m->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (range_at(m, mid).hi < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool room_for_one(struct missing *m)
{
	uint32_t cap = m->many ? m->cap : MISSING_FEW;

	if (m->n < cap)
		return true;
	if (cap >= MISSING_MOST)
		return false;
	struct missing_range *r =
		lists_grow(m->many, m->cap * sizeof *r, 2 * (size_t)cap * sizeof *r);
	if (!r)
		return false;
	if (!m->many)
		memcpy(r, m->few, sizeof m->few);
	m->many = r;
	m->cap = 2 * cap;
	return true;
}

/* Moves the ranges from i on by one place. */
static void open_gap(struct missing *m, uint32_t i)
{
	struct missing_range *r = ranges(m);

	memmove(&r[i + 1], &r[i], (m->n - i) * sizeof *r);
	m->n++;
}

static void close_gap(struct missing *m, uint32_t i, uint32_t end)
{
	struct missing_range *r = ranges(m);

	memmove(&r[i], &r[end], (m->n - end) * sizeof *r);
	m->n -= end - i;
}

/* Joins ranges i and i + 1, with what lies between them. */
static void join(struct missing *m, uint32_t i)
{
	struct missing_range *r = ranges(m);

	r[i].hi = r[i + 1].hi;
	close_gap(m, i + 1, i + 2);
}

void missing_add(struct missing *m, uint64_t lo, uint64_t hi)
{
	uint32_t i = range_from(m, lo), end = i;

	if (lo >= hi)
		return;
	while (end < m->n && range_at(m, end).lo <= hi)
		end++;
	if (end > i) {
		struct missing_range *r = ranges(m);
		r[i].lo = min_u64(r[i].lo, lo);
		r[i].hi = max_u64(r[end - 1].hi, hi);
		close_gap(m, i + 1, end);
		return;
	}
	if (!room_for_one(m)) {
		bool between = i == m->n - 1; /* the two that are joined, which then cover it */
		join(m, m->n - 2);
		if (between)
			return;
		i = (uint32_t)min_u64(i, m->n);
	}
	open_gap(m, i);
	ranges(m)[i] = (struct missing_range){lo, hi};
}

/* Removes [lo, hi), which lies inside range i. */
static void split(struct missing *m, uint32_t i, uint64_t lo, uint64_t hi)
{
	if (!room_for_one(m)) {
		bool last = i == m->n - 1; /* else it may be one of the two that are joined */
		join(m, m->n - (last ? 3 : 2));
		i -= last;
	}
	assert(ranges(m)[i].lo < lo && ranges(m)[i].hi > hi);
	open_gap(m, i);
	ranges(m)[i].hi = lo;
	ranges(m)[i + 1].lo = hi;
}

void missing_mend(struct missing *m, uint64_t lo, uint64_t hi)
{
	uint32_t i = range_from(m, lo);
	struct missing_range *r = ranges(m);

	if (lo >= hi || i == m->n)
		return;
	if (r[i].lo < lo && r[i].hi > hi) {
		split(m, i, lo, hi);
		return;
	}
	if (r[i].lo < lo)
		r[i++].hi = lo;
	uint32_t end = i;
	while (end < m->n && r[end].hi <= hi)
		end++;
	if (end < m->n && r[end].lo < hi)
		r[end].lo = hi;
	close_gap(m, i, end);
	if (m->n == 0)
		missing_clear(m);
}

void missing_clear(struct missing *m)
{
	lists_free(m->many, m->cap * sizeof *m->many);
	*m = (struct missing){0};
}

uint64_t missing_first(const struct missing *m)
{
	return m->n ? range_at(m, 0).lo : UINT64_MAX;
}

uint64_t missing_end(const struct missing *m)
{
	return m->n ? range_at(m, m->n - 1).hi : 0;
}

bool missing_within(const struct missing *m, uint64_t lo, uint64_t hi, struct missing_range *part)
{
	uint32_t i = lo < hi ? range_from(m, lo + 1) : m->n;

	if (i == m->n || range_at(m, i).lo >= hi)
		return false;
	part->lo = max_u64(lo, range_at(m, i).lo);
	part->hi = min_u64(hi, range_at(m, i).hi);
	return true;
}
