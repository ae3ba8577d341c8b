#include "fs/dirty/arrivals.h"

#include "base/bytes.h"
#include "base/meter.h"

/* The kernel keeps no page dirty for so long: what has not come by then is not on its way. */
#define PAGES_COME_NS 60000000000u

void arrivals_clear(struct arrivals *a)
{
	a->gaps.n = a->blank.n = a->refused.n = 0;
	a->committed = 0;
	a->cut = false;
}

void arrivals_release(struct arrivals *a, uint64_t lo, uint64_t hi)
{
	missing_mend(&a->gaps, lo, hi);
	missing_mend(&a->blank, lo, hi);
	missing_mend(&a->refused, lo, hi);
}

void arrivals_come(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi)
{
	if (lo == hi)
		return;
	if (lo > size) {
		missing_add(&a->gaps, size, lo);
		missing_add(&a->blank, size, lo);
	}
	arrivals_release(a, lo, hi);
}

void arrivals_resize(struct arrivals *a, uint64_t size)
{
	a->committed = min_u64(a->committed, size);
}

void arrivals_refuse(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi, int error)
{
	bool any = hi > size;

	if (any)
		missing_add(&a->refused, max_u64(lo, size), hi);
	for (uint32_t i = 0; i < a->blank.n; i++) {
		uint64_t from = max_u64(lo, a->blank.range[i].lo);
		uint64_t to = min_u64(hi, a->blank.range[i].hi);
		if (from >= to)
			continue;
		missing_add(&a->refused, from, to);
		any = true;
	}
	if (!any)
		return;
	a->refusals++;
	a->error = error;
	a->refused_at = meter_now();
}

/*
 * Holes that were committed a while ago are holes: a page that is refused there is none that the
 * file would have to end before, with all that has been behind it since then.
 */
static void keep_holes(struct arrivals *a, uint64_t kept)
{
	uint64_t now = meter_now();

	if (now - a->committed_at < PAGES_COME_NS)
		return;
	missing_mend(&a->blank, 0, a->committed);
	a->committed = kept;
	a->committed_at = now;
}

void arrivals_commit(struct arrivals *a, uint64_t kept)
{
	missing_mend(&a->gaps, 0, kept);
	keep_holes(a, kept);
}

void arrivals_promise(struct arrivals *a, uint64_t size)
{
	missing_mend(&a->blank, 0, size);
}

bool arrivals_are_over(const struct arrivals *a)
{
	return a->refused.n && meter_now() - a->refused_at >= PAGES_COME_NS;
}

uint64_t arrivals_give_up(struct arrivals *a)
{
	uint64_t end = a->refused.n ? a->refused.range[a->refused.n - 1].hi : 0;

	a->refused.n = 0;
	return end;
}
