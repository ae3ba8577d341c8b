#include "fs/dirty/ranges.h"

#include "base/buf.h"

#include <assert.h>
#include <stdatomic.h>

static _Atomic size_t held; /* bytes of sets that are not short */

static size_t counted(size_t bytes)
{
	return bytes > RANGES_SHORT ? bytes : 0;
}

static bool grow(struct ranges *s, uint32_t cap)
{
	size_t bytes = cap * sizeof *s->many;
	size_t more = counted(bytes) - counted(s->cap * sizeof *s->many);
	size_t now = atomic_fetch_add(&held, more) + more;
	struct byte_range *r = NULL;

	if (now <= RANGES_LONG || !more)
		r = mem_realloc(s->many, bytes);
	if (!r) {
		held -= more;
		return false;
	}
	if (!s->many)
		memcpy(r, s->few, sizeof s->few);
	s->many = r;
	s->cap = cap;
	return true;
}

static struct byte_range *ranges(struct ranges *s)
{
	return s->many ? s->many : s->few;
}

struct byte_range ranges_at(const struct ranges *s, uint32_t i)
{
	assert(i < s->n);
	return s->many ? s->many[i] : s->few[i];
}

/* The first range that ends at or after `at`, by binary search; n: none. */
static uint32_t range_from(const struct ranges *s, uint64_t at)
{
	uint32_t lo = 0, hi = s->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (ranges_at(s, mid).hi < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool room_for_one(struct ranges *s)
{
	uint32_t cap = s->many ? s->cap : RANGES_FEW;

	return s->n < cap || (cap < RANGES_MOST && grow(s, 2 * cap));
}

/* Moves the ranges from i on by one place. */
static void open_gap(struct ranges *s, uint32_t i)
{
	struct byte_range *r = ranges(s);

	memmove(&r[i + 1], &r[i], (s->n - i) * sizeof *r);
	s->n++;
}

static void close_gap(struct ranges *s, uint32_t i, uint32_t end)
{
	struct byte_range *r = ranges(s);

	memmove(&r[i], &r[end], (s->n - end) * sizeof *r);
	s->n -= end - i;
}

/* Joins ranges i and i + 1, with what lies between them. */
static void join(struct ranges *s, uint32_t i)
{
	struct byte_range *r = ranges(s);

	r[i].hi = r[i + 1].hi;
	close_gap(s, i + 1, i + 2);
}

bool ranges_add(struct ranges *s, uint64_t lo, uint64_t hi)
{
	uint32_t i = range_from(s, lo), end = i;

	if (lo >= hi)
		return true;
	while (end < s->n && ranges_at(s, end).lo <= hi)
		end++;
	if (end > i) {
		struct byte_range *r = ranges(s);
		r[i].lo = min_u64(r[i].lo, lo);
		r[i].hi = max_u64(r[end - 1].hi, hi);
		close_gap(s, i + 1, end);
		return true;
	}
	bool room = room_for_one(s);
	if (!room) {
		bool between = i == s->n - 1; /* the two that are joined, which then cover it */
		join(s, s->n - 2);
		if (between)
			return false;
		i = (uint32_t)min_u64(i, s->n);
	}
	open_gap(s, i);
	ranges(s)[i] = (struct byte_range){lo, hi};
	return room;
}

/* Removes [lo, hi), which lies inside range i. */
static void split(struct ranges *s, uint32_t i, uint64_t lo, uint64_t hi)
{
	if (!room_for_one(s)) {
		bool last = i == s->n - 1; /* else it may be one of the two that are joined */
		join(s, s->n - (last ? 3 : 2));
		i -= last;
	}
	assert(ranges(s)[i].lo < lo && ranges(s)[i].hi > hi);
	open_gap(s, i);
	ranges(s)[i].hi = lo;
	ranges(s)[i + 1].lo = hi;
}

void ranges_remove(struct ranges *s, uint64_t lo, uint64_t hi)
{
	uint32_t i = range_from(s, lo);
	struct byte_range *r = ranges(s);

	if (lo >= hi || i == s->n)
		return;
	if (r[i].lo < lo && r[i].hi > hi) {
		split(s, i, lo, hi);
		return;
	}
	if (r[i].lo < lo)
		r[i++].hi = lo;
	uint32_t end = i;
	while (end < s->n && r[end].hi <= hi)
		end++;
	if (end < s->n && r[end].lo < hi)
		r[end].lo = hi;
	close_gap(s, i, end);
	if (s->n == 0)
		ranges_clear(s);
}

void ranges_clear(struct ranges *s)
{
	held -= counted(s->cap * sizeof *s->many);
	mem_free(s->many);
	*s = (struct ranges){0};
}

uint64_t ranges_first(const struct ranges *s)
{
	return s->n ? ranges_at(s, 0).lo : UINT64_MAX;
}

uint64_t ranges_end(const struct ranges *s)
{
	return s->n ? ranges_at(s, s->n - 1).hi : 0;
}

bool ranges_within(const struct ranges *s, uint64_t lo, uint64_t hi, struct byte_range *part)
{
	uint32_t i = lo < hi ? range_from(s, lo + 1) : s->n;

	if (i == s->n || ranges_at(s, i).lo >= hi)
		return false;
	part->lo = max_u64(lo, ranges_at(s, i).lo);
	part->hi = min_u64(hi, ranges_at(s, i).hi);
	return true;
}

uint64_t ranges_bytes(const struct ranges *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->n; i++)
		sum += ranges_at(s, i).hi - ranges_at(s, i).lo;
	return sum;
}
