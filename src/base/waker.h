/*
 * Sleep for a background thread: until a point in time, until woken, or until told to end.
 *
 * Only one thread may sleep; the other functions are thread-safe. Times are those of meter_now
 * (meter.h): nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef BASE_WAKER_H
#define BASE_WAKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WAKER_NEVER UINT64_MAX

struct waker {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool woken, stopped; /* under lock */
};

void waker_init(struct waker *w);
void waker_deinit(struct waker *w);

/*
 * Sleeps until the time `until`, or until waker_wake; returns at once if there was a wake since the
 * last sleep. False: the thread has to end.
 */
bool waker_sleep(struct waker *w, uint64_t until);

/* The same for a number of seconds from now. */
bool waker_sleep_for(struct waker *w, double seconds);

void waker_wake(struct waker *w);

/* From now on every sleep returns false at once. The caller then joins the thread. */
void waker_stop(struct waker *w);

/* True: the thread has to end. For threads that work for a long time without sleeping. */
bool waker_stopped(struct waker *w);

#endif
