/*
 * How a background thread sleeps: until some time, until it is woken, or until it is told to end.
 *
 * Only one thread sleeps; the other functions may be called from any thread. Times are those of
 * meter_now (meter.h): nanoseconds of CLOCK_MONOTONIC.
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
 * Sleeps until the time `until`, or until waker_wake; a wake since the last sleep ends this one at
 * once. False: the thread has to end.
 */
bool waker_sleep(struct waker *w, uint64_t until);

/* The same for so many seconds from now. */
bool waker_sleep_for(struct waker *w, double seconds);

void waker_wake(struct waker *w);

/* From now on every sleep ends at once and returns false. The caller then joins the thread. */
void waker_stop(struct waker *w);

/* True: the thread has to end. For threads that work for long without sleeping. */
bool waker_stopped(struct waker *w);

#endif
