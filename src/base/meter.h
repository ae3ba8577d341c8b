/*
 * Counters and timers of this process. Each thread counts in a block of its own, with plain
 * adds: no cache line is shared and nothing is locked on the way. Who reads adds the blocks up; the
 * sums of threads that have ended are kept.
 *
 * What the numbers stand for is the affair of the floors above: frame/meters.h, fs/stats.h.
 *
 * A timer is a log-linear histogram of nanoseconds: eight buckets for each doubling, so that a
 * percentile is right within 12.5 %, from 128 ns to two minutes.
 */
#ifndef BASE_METER_H
#define BASE_METER_H

#include <stdint.h>
#include <time.h>

#define METER_COUNTS 96
#define METER_TIMERS 8
#define METER_BUCKETS 240

struct meter_timer {
	uint64_t n, ns, most;
	uint64_t bucket[METER_BUCKETS];
};

struct meter_sums {
	uint64_t count[METER_COUNTS];
	struct meter_timer timer[METER_TIMERS];
};

void meter_add(unsigned count, uint64_t n);

static inline uint64_t meter_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* What began at `start` (meter_now) has ended. */
void meter_time(unsigned timer, uint64_t start);

/* Sums over all threads. What is counted meanwhile may be in them or not. */
void meter_read(struct meter_sums *out);

/* The time that `share` (0 to 1) of the cases stayed below, in nanoseconds; 0 without cases. */
uint64_t meter_percentile(const struct meter_timer *t, double share);

#endif
