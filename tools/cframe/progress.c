#include "progress.h"
#include "say.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST 1.0 /* seconds before the line appears */
#define EACH 0.5

static atomic_uint_least64_t files, plain, stored;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the terminal and what follows */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static double start;
static bool running, ended, shown;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t); /* the clock of pthread_cond_timedwait */
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_file(void)
{
	atomic_fetch_add_explicit(&files, 1, memory_order_relaxed);
}

void progress_bytes(uint64_t of_plain, uint64_t of_stored)
{
	atomic_fetch_add_explicit(&plain, of_plain, memory_order_relaxed);
	atomic_fetch_add_explicit(&stored, of_stored, memory_order_relaxed);
}

void progress_take_back(uint64_t of_plain)
{
	atomic_fetch_sub_explicit(&plain, of_plain, memory_order_relaxed);
}

/* Does not write to a terminal while another program is in the foreground. */
static void show(void)
{
	double n = (double)plain, of_stored = (double)stored, seconds = now() - start;
	char all[16], small[16], speed[16];

	if (seconds < FIRST || tcgetpgrp(STDERR_FILENO) != getpgrp())
		return;
	tool_bytes_text(n, all);
	tool_bytes_text(of_stored, small);
	tool_bytes_text(n / seconds, speed);
	fprintf(stderr, "\r%" PRIu64 " file%s, %s", (uint64_t)files, files == 1 ? "" : "s", all);
	if (of_stored > 0)
		fprintf(stderr, " -> %s (%.1f %%)", small, 100 * of_stored / n);
	fprintf(stderr, ", %s/s\033[K", speed);
	shown = true;
}

static void hide(void)
{
	if (shown)
		fprintf(stderr, "\r\033[K");
	shown = false;
}

static void *run(void *arg)
{
	pthread_mutex_lock(&lock);
	for (double next = start + FIRST; !ended; next = now() + EACH) {
		struct timespec at = {(time_t)next, 0};
		at.tv_nsec = (long)(1e9 * (next - (double)at.tv_sec));
		(void)pthread_cond_timedwait(&wake, &lock, &at);
		if (!ended)
			show();
	}
	pthread_mutex_unlock(&lock);
	return arg;
}

void progress_start(void)
{
	const char *term = getenv("TERM");

	if (!isatty(STDERR_FILENO) || !term || strcmp(term, "dumb") == 0)
		return;
	start = now();
	running = pthread_create(&thread, NULL, run, NULL) == 0;
}

void progress_end(void)
{
	if (!running)
		return;
	pthread_mutex_lock(&lock);
	ended = true;
	pthread_cond_signal(&wake);
	hide();
	pthread_mutex_unlock(&lock);
	(void)pthread_join(thread, NULL);
	running = false;
}

void progress_hold(void)
{
	pthread_mutex_lock(&lock);
	hide();
}

void progress_go_on(void)
{
	pthread_mutex_unlock(&lock);
}
