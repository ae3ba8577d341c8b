#include "base/waker.h"

#include "base/meter.h"

void waker_init(struct waker *w)
{
	pthread_condattr_t attr;

	*w = (struct waker){0};
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void waker_deinit(struct waker *w)
{
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
}

bool waker_sleep(struct waker *w, uint64_t until)
{
	struct timespec t = clock_timespec(until);

	pthread_mutex_lock(&w->lock);
	while (!w->stopped && !w->woken && meter_now() < until) {
		if (until == WAKER_NEVER)
			pthread_cond_wait(&w->changed, &w->lock);
		else
			pthread_cond_timedwait(&w->changed, &w->lock, &t);
	}
	w->woken = false;
	bool go_on = !w->stopped;
	pthread_mutex_unlock(&w->lock);
	return go_on;
}

bool waker_sleep_for(struct waker *w, double seconds)
{
	return waker_sleep(w, meter_now() + clock_from_seconds(seconds));
}

static void set(struct waker *w, bool *flag)
{
	pthread_mutex_lock(&w->lock);
	*flag = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void waker_wake(struct waker *w)
{
	set(w, &w->woken);
}

void waker_stop(struct waker *w)
{
	set(w, &w->stopped);
}

bool waker_stopped(struct waker *w)
{
	pthread_mutex_lock(&w->lock);
	bool stopped = w->stopped;
	pthread_mutex_unlock(&w->lock);
	return stopped;
}
