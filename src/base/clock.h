/* Times as a single number: nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND UINT64_C(1000000000)
#define CLOCK_MS (CLOCK_SECOND / 1000)

static inline uint64_t clock_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * CLOCK_SECOND + (uint64_t)t.tv_nsec;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / CLOCK_SECOND), (long)(ns % CLOCK_SECOND)};
}

static inline uint64_t clock_read(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return clock_ns(t);
}

static inline uint64_t clock_from_seconds(double seconds)
{
	return (uint64_t)(seconds * (double)CLOCK_SECOND);
}

/* Sleeps for `ns`; a signal may end it early. */
static inline void clock_sleep(uint64_t ns)
{
	struct timespec t = clock_timespec(ns);
	nanosleep(&t, NULL);
}

/*
 * For polling with exponential backoff: sleeps for *pause nanoseconds and doubles it, up to `most`.
 * Start from CLOCK_NAP if the wait is mostly short.
 */
#define CLOCK_NAP 50000u /* ns */
static inline void clock_nap(uint64_t *pause, uint64_t most)
{
	clock_sleep(*pause);
	*pause = *pause < most / 2 ? 2 * *pause : most;
}

static inline double clock_to_seconds(uint64_t ns)
{
	return (double)ns / (double)CLOCK_SECOND;
}

#endif
