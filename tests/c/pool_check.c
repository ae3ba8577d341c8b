/*
 * The worker pool (pool.h): the order of its lanes, what still runs when it is closed, that workers
 * receive no signals, and a system that allows fewer threads than were asked for.
 */
#include <pthread.h>

/* Used by pool.c: the first can fail, and each thread that it creates has to be joined. */
static int counted_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int counted_join(pthread_t, void **);
#define pthread_create counted_create
#define pthread_join counted_join
#include "base/pool.c"
#undef pthread_create
#undef pthread_join

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS 8

static unsigned threads_left = 1000; /* so many more can be created */
static unsigned threads;             /* that have not been joined */
static atomic_uint nrun;
static sem_t begun, go_on;

struct numbered {
	struct pool_job job;
	unsigned when; /* its place in the order in which jobs ran, from 1 on */
	bool masked;   /* its thread receives no signals */
};

static struct numbered job[JOBS];

static void check(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static int counted_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	if (!threads_left)
		return EAGAIN;
	threads_left--;
	threads++;
	return pthread_create(t, attr, run, arg);
}

static int counted_join(pthread_t t, void **result)
{
	check(threads > 0, "a thread that was not made is joined");
	threads--;
	return pthread_join(t, result);
}

static void note(struct pool_job *j)
{
	struct numbered *n = (struct numbered *)j;
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	n->masked = sigismember(&now, SIGTERM) && sigismember(&now, SIGCHLD);
	n->when = atomic_fetch_add(&nrun, 1) + 1;
}

static void note_and_wait(struct pool_job *j)
{
	note(j);
	sem_post(&begun);
	sem_wait(&go_on);
}

/* One worker, which is busy until all others have been submitted; then the pool is closed. */
static void lanes(void)
{
	static const unsigned when[JOBS] = {1, 5, 2, 6, 3, 7, 4, 8};
	struct pool *p;
	sigset_t now;

	check(pool_open(&p, 1) == 0 && pool_size(p) == 1, "a pool");
	job[0].job.run = note_and_wait;
	pool_submit(p, &job[0].job, POOL_SOON);
	sem_wait(&begun);
	check(pool_is_idle(p), "what runs does not wait");
	for (unsigned i = 1; i < JOBS; i++) {
		job[i].job.run = note;
		pool_submit(p, &job[i].job, i % 2 ? POOL_LATER : POOL_SOON);
		check(!pool_is_idle(p), "a job waits");
	}
	sem_post(&go_on);
	pool_close(p);
	for (unsigned i = 0; i < JOBS; i++)
		check(job[i].when == when[i] && job[i].masked, "the order of jobs, or a signal");
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	check(!sigismember(&now, SIGTERM), "signals are for this thread");
}

/* Each job comes into an empty lane, while a worker is waiting. */
static void one_by_one(void)
{
	struct pool *p;

	check(pool_open(&p, 2) == 0, "a pool");
	for (unsigned i = 0; i < JOBS; i++) {
		job[i].job = (struct pool_job){note_and_wait, &job[i].job}; /* next: anything */
		pool_submit(p, &job[i].job, i & 2 ? POOL_LATER : POOL_SOON);
		sem_wait(&begun);
		sem_post(&go_on);
		usleep(1000); /* so that the worker usually sleeps again */
	}
	pool_close(p);
}

static void too_few_threads(void)
{
	struct pool *p;

	for (unsigned n = 0; n < 4; n++) {
		threads_left = n;
		check(pool_open(&p, 4) == -EAGAIN && !threads, "no more threads");
	}
	threads_left = 0;
	check(pool_open(&p, 0) == 0, "a pool without workers");
	unsigned before = nrun;
	job[0].job.run = note;
	pool_submit(p, &job[0].job, POOL_LATER);
	check(nrun == before + 1, "who submits does it");
	pool_close(p);
	pool_close(NULL);
}

int main(void)
{
	cpu_set_t all, one;

	sem_init(&begun, 0, 0);
	sem_init(&go_on, 0, 0);
	lanes();
	one_by_one();
	too_few_threads();
	check(!threads, "threads that are left");
	check(sched_getaffinity(0, sizeof all, &all) == 0, "which processors");
	check(pool_cores() == min_u64((uint64_t)CPU_COUNT(&all), POOL_MOST), "all of them");
	CPU_ZERO(&one);
	for (unsigned i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	check(sched_setaffinity(0, sizeof one, &one) == 0 && pool_cores() == 1, "one of them");
	return 0;
}
