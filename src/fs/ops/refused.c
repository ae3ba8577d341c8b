#include "fs/ops/refused.h"

#include "base/clock.h"

/* A refused thread comes back sooner than this, even if it has to wait for a lock. */
#define SOON_NS (60 * CLOCK_SECOND)

/* Time is counted in units of 4 ms, in 32 bits. */
#define UNIT_BITS 22

static uint32_t time_now(void)
{
	return (uint32_t)(clock_read(CLOCK_MONOTONIC) >> UNIT_BITS);
}

static _Atomic uint64_t *place_of(struct refused *r, pid_t thread)
{
	return &r->places[(unsigned)thread % REFUSED_MOST];
}

void refused_note(struct refused *r, pid_t thread)
{
	*place_of(r, thread) = (uint64_t)time_now() << 32 | (uint32_t)thread;
}

enum opener refused_know(struct refused *r, pid_t thread)
{
	_Atomic uint64_t *place = place_of(r, thread);
	uint64_t note = *place;

	if (thread == 0)
		return OPENER_UNKNOWN;
	if ((uint32_t)note != (uint32_t)thread || !atomic_compare_exchange_strong(place, &note, 0))
		return OPENER_FIRST;
	uint32_t since = time_now() - (uint32_t)(note >> 32);
	return since <= SOON_NS >> UNIT_BITS ? OPENER_AGAIN : OPENER_FIRST;
}
