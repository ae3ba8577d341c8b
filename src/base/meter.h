/*
 * Counters and timers of this process. Each thread counts in its own block, with plain adds, so
 * counting shares no cache lines and takes no locks. Reading adds up the blocks of all threads,
 * including those that have ended.
 *
 * What the numbers mean is defined by the layers above: frame/meters.h, fs/stats.h.
 *
 * A timer is a log-linear histogram of nanoseconds: eight buckets for each doubling, from 128 ns to
 * two minutes, so percentiles are accurate to 12.5 %.
 */
#ifndef BASE_METER_H
#define BASE_METER_H

#include "base/clock.h"

#define METER_COUNTS 96
#define METER_TIMERS 8
#define METER_BUCKETS 240

struct meter_timer {
	uint64_t n, ns, most; /* number of events, their total and their longest time, in ns */
	uint64_t bucket[METER_BUCKETS];
};

struct meter_sums {
	uint64_t count[METER_COUNTS];
	struct meter_timer timer[METER_TIMERS];
};

/* Adds n to counter number `count`. */
void meter_add(unsigned count, uint64_t n);

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t meter_now(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

/* Counts an event that began at `start` (meter_now) and ends now. */
void meter_time(unsigned timer, uint64_t start);

/* Sums over all threads. Concurrent events may or may not be included. */
void meter_read(struct meter_sums *out);

/* The nanoseconds that a `share` (0 to 1) of the events did not exceed; 0 if there are none. */
uint64_t meter_percentile(const struct meter_timer *t, double share);

#endif
