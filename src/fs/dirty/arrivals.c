#include "fs/dirty/arrivals.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/meter.h"

/* The kernel keeps no page dirty for this long: what has not come by then is not on its way. */
#define PAGES_COME_NS (60 * CLOCK_SECOND)

void arrivals_clear(struct arrivals *a)
{
	ranges_clear(&a->gaps);
	ranges_clear(&a->blank);
	ranges_clear(&a->refused);
	a->aged = a->aged_at = a->passed = 0;
}

/*
 * Forgets blank ranges that are a minute old (PAGES_COME_NS): the application has left them out on
 * purpose, and they are holes. If a page there is refused later on, that does not cut the file, so
 * a refusal costs no more than what was written in the last minute or two.
 *
 * The ages of ranges are not noted. Instead, once a minute, the whole list is dropped if it has not
 * grown since the last time; otherwise the part below the file's size at that time. `size`: the
 * file's present size, or less.
 */
static void age(struct arrivals *a, uint64_t size)
{
	uint64_t now = meter_now();

	if (now - a->aged_at < PAGES_COME_NS)
		return;
	bool all = now - a->blank_at >= PAGES_COME_NS;
	ranges_remove(&a->blank, 0, all ? UINT64_MAX : a->aged);
	a->aged = size;
	a->aged_at = now;
}

void arrivals_lack(struct arrivals *a, uint64_t lo, uint64_t hi)
{
	if (lo >= hi)
		return;
	ranges_add(&a->gaps, lo, hi);
	ranges_add(&a->blank, lo, hi);
	a->blank_at = meter_now();
	age(a, hi);
}

void arrivals_release(struct arrivals *a, uint64_t lo, uint64_t hi)
{
	ranges_remove(&a->gaps, lo, hi);
	ranges_remove(&a->blank, lo, hi);
	ranges_remove(&a->refused, lo, hi);
}

void arrivals_come(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi)
{
	if (lo >= hi)
		return;
	arrivals_lack(a, size, lo);
	arrivals_release(a, lo, hi);
	if (hi > ranges_first(&a->refused) && meter_now() - a->refused_at >= PAGES_COME_NS)
		a->passed = max_u64(a->passed, hi);
}

void arrivals_resize(struct arrivals *a, uint64_t size)
{
	a->aged = min_u64(a->aged, size);
	a->passed = min_u64(a->passed, size);
}

void arrivals_refuse(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi, int error)
{
	struct byte_range part;
	bool any = hi > size;

	age(a, size);
	if (any)
		ranges_add(&a->refused, max_u64(lo, size), hi);
	for (; ranges_within(&a->blank, lo, hi, &part); lo = part.hi) {
		ranges_add(&a->refused, part.lo, part.hi);
		any = true;
	}
	if (!any)
		return;
	a->refusals++;
	a->error = error;
	a->refused_at = meter_now();
	a->passed = 0;
}

void arrivals_commit(struct arrivals *a, uint64_t kept)
{
	ranges_remove(&a->gaps, 0, kept);
}

void arrivals_promise(struct arrivals *a, uint64_t size)
{
	ranges_remove(&a->blank, 0, size);
}

bool arrivals_passed_refused(const struct arrivals *a)
{
	return a->passed > ranges_first(&a->refused);
}

void arrivals_give_up(struct arrivals *a)
{
	ranges_clear(&a->refused);
	a->passed = 0;
}
