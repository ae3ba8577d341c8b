/*
 * Compares sets of ranges (ranges.h) with a map of all places, while ranges are added and removed
 * at random. A set is exact as long as it has not been full, and never leaves out a range. The same
 * while others use all the memory for long sets. `ranges_check SEED`.
 */
#include "base/bytes.h"
#include "fs/dirty/ranges.h"
#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES (1u << 15)

static bool map[PLACES];

static uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random() % n);
}

static void check(bool right, const char *what, unsigned step)
{
	if (right)
		return;
	fprintf(stderr, "step %u: %s\n", step, what);
	exit(1);
}

static void compare(const struct ranges *m, bool exact, unsigned step)
{
	struct byte_range part = {0, 0};
	uint64_t first = UINT64_MAX;
	bool any = true;

	for (uint32_t at = 0; at < PLACES; at++) {
		if (map[at] && first == UINT64_MAX)
			first = at;
		if (at >= part.hi && any)
			any = ranges_within(m, at, PLACES, &part);
		bool named = any && at >= part.lo && at < part.hi;
		check(named || !map[at], "a byte is not named", step);
		check(!exact || named == map[at], "a byte is named that was not added", step);
	}
	check(!exact || ranges_first(m) == first, "the first byte", step);
	check(ranges_first(m) <= first, "the first byte comes too late", step);
}

/* `longest`: the longest range; a set of short ones gets full, with `room` of them. */
static void story(unsigned steps, uint32_t longest, uint32_t room)
{
	struct ranges m = {0};
	bool exact = true;

	memset(map, 0, sizeof map);
	for (unsigned step = 0; step < steps; step++) {
		uint32_t lo = below(PLACES);
		uint32_t hi = lo + below((uint32_t)min_u64(longest, PLACES - lo) + 1);
		bool add = below(2);
		exact &= m.n < room - 1;
		if (add)
			check(ranges_add(&m, lo, hi) || !exact, "joined without need", step);
		else
			ranges_remove(&m, lo, hi);
		memset(map + lo, add, hi - lo);
		if (step % (steps / 200 + 1) == 0)
			compare(&m, exact, step);
	}
	check(longest > 1 || !exact, "the set was never full", steps);
	ranges_remove(&m, 0, UINT64_MAX);
	check(m.n == 0, "something is left", steps);
	ranges_clear(&m);
}

#define OTHERS 1000u

static void all_together(void)
{
	static struct ranges other[OTHERS];
	uint64_t bytes = 0;

	for (unsigned i = 0; i < OTHERS; i++) {
		for (uint32_t at = 0; at < RANGES_MOST; at++)
			ranges_add(&other[i], 2 * at, 2 * at + 1);
		check(ranges_end(&other[i]) == 2 * RANGES_MOST - 1, "the end", i);
		bytes += other[i].cap * sizeof(struct byte_range);
	}
	check(bytes >= RANGES_LONG / 2, "long sets get no memory", 0);
	check(bytes <= RANGES_LONG + OTHERS * RANGES_SHORT, "they get too much", 0);
	for (uint32_t longest = 1; longest <= PLACES; longest *= 32)
		story(20000, longest, RANGES_SHORT / sizeof(struct byte_range));
	for (unsigned i = 0; i < OTHERS; i++)
		ranges_remove(&other[i], 0, UINT64_MAX);
}

int main(int argc, char **argv)
{
	state = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : 1;

	all_together();
	for (uint32_t longest = 1; longest <= PLACES; longest *= 8)
		story(60000, longest, RANGES_MOST);
	return 0;
}
