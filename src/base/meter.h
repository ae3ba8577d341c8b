/*
 * Counters and timers of this process. Each thread counts in a block of its own, with plain adds,
 * so that counting shares no cache line and takes no lock. Reading sums the blocks of all threads,
 * and what remains of those that have ended.
 *
 * What the numbers mean is defined by the layers above: frame/meters.h, fs/stats.h.
 *
 * A timer is a log-linear histogram of nanoseconds: eight buckets for each doubling, from 128 ns to
 * two minutes, so that percentiles are right within 12.5 %.
 */
#ifndef BASE_METER_H
#define BASE_METER_H

#include "base/clock.h"

#define METER_COUNTS 96
#define METER_TIMERS 8
#define METER_BUCKETS 240

struct meter_timer {
	uint64_t n, ns, most; /* number of cases, their total time and longest time, in ns */
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

/* Counts a case that began at `start` (meter_now) and ends now. */
void meter_time(unsigned timer, uint64_t start);

/* Sums over all threads. Events that happen meanwhile may be included or not. */
void meter_read(struct meter_sums *out);

/* The nanoseconds that a `share` (0 to 1) of the cases did not exceed; 0 if there are none. */
uint64_t meter_percentile(const struct meter_timer *t, double share);

#endif
