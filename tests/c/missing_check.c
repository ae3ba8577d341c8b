/*
 * Compares lists of missing ranges (missing.h) with a map of all places, while ranges are added and
 * removed at random. A list is exact as long as it has not been full, and never leaves out a range.
 * The same while others use all the memory for long lists (lists.h). `missing_check SEED`.
 */
#include "base/bytes.h"
#include "fs/dirty/lists.h"
#include "fs/dirty/missing.h"
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

static void compare(const struct missing *m, bool exact, unsigned step)
{
	struct missing_range part = {0, 0};
	uint64_t first = UINT64_MAX;
	bool any = true;

	for (uint32_t at = 0; at < PLACES; at++) {
		if (map[at] && first == UINT64_MAX)
			first = at;
		if (at >= part.hi && any)
			any = missing_within(m, at, PLACES, &part);
		bool named = any && at >= part.lo && at < part.hi;
		check(named || !map[at], "a missing byte is not named", step);
		check(!exact || named == map[at], "a byte is named that is there", step);
	}
	check(!exact || missing_first(m) == first, "the first byte", step);
	check(missing_first(m) <= first, "the first byte comes too late", step);
}

/* `longest`: the longest range; a list of short ones gets full, with `room` of them. */
static void story(unsigned steps, uint32_t longest, uint32_t room)
{
	struct missing m = {0};
	bool exact = true;

	memset(map, 0, sizeof map);
	for (unsigned step = 0; step < steps; step++) {
		uint32_t lo = below(PLACES);
		uint32_t hi = lo + below((uint32_t)min_u64(longest, PLACES - lo) + 1);
		bool add = below(2);
		exact &= m.n < room - 1;
		if (add)
			missing_add(&m, lo, hi);
		else
			missing_mend(&m, lo, hi);
		memset(map + lo, add, hi - lo);
		if (step % (steps / 200 + 1) == 0)
			compare(&m, exact, step);
	}
	check(longest > 1 || !exact, "the list was never full", steps);
	missing_mend(&m, 0, UINT64_MAX);
	check(m.n == 0, "something is left", steps);
	missing_clear(&m);
}

#define OTHERS 1000u

static void all_together(void)
{
	static struct missing other[OTHERS];
	uint64_t bytes = 0;

	for (unsigned i = 0; i < OTHERS; i++) {
		for (uint32_t at = 0; at < MISSING_MOST; at++)
			missing_add(&other[i], 2 * at, 2 * at + 1);
		check(missing_end(&other[i]) == 2 * MISSING_MOST - 1, "the end", i);
		bytes += other[i].cap * sizeof(struct missing_range);
	}
	check(bytes >= LISTS_MOST / 2, "long lists get no memory", 0);
	check(bytes <= LISTS_MOST + OTHERS * LISTS_SHORT, "they get too much", 0);
	for (uint32_t longest = 1; longest <= PLACES; longest *= 32)
		story(20000, longest, LISTS_SHORT / sizeof(struct missing_range));
	for (unsigned i = 0; i < OTHERS; i++)
		missing_mend(&other[i], 0, UINT64_MAX);
}

int main(int argc, char **argv)
{
	state = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : 1;

	all_together();
	for (uint32_t longest = 1; longest <= PLACES; longest *= 8)
		story(60000, longest, MISSING_MOST);
	return 0;
}
