#include "base/pool.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/slice.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

struct queue {
	struct pool_job *head, **tail;
};

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct queue lane[POOL_LANES]; /* under lock */
	bool closing;                  /* under lock */
	unsigned nworkers;             /* that were started */
	pthread_t worker[];
};

unsigned pool_cores(void)
{
	cpu_set_t set;

	/* Fails on machines with more than 1024 processors. */
	long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
							     : sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (unsigned)min_u64((uint64_t)n, POOL_MOST) : 1;
}

#define SMALL_STACK (1u << 20)

void pool_small_stacks(void)
{
	pthread_attr_t attr;

	if (pthread_attr_init(&attr) != 0)
		return;
	if (pthread_attr_setstacksize(&attr, SMALL_STACK) == 0)
		(void)pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
}

static void queue_push(struct queue *q, struct pool_job *job)
{
	job->next = NULL;
	*q->tail = job;
	q->tail = &job->next;
}

static struct pool_job *queue_pop(struct queue *q)
{
	struct pool_job *job = q->head;
	if (job && !(q->head = job->next))
		q->tail = &q->head;
	return job;
}

static void *worker_main(void *arg)
{
	struct pool *p = arg;

	slice_lengthen();
	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct pool_job *job = queue_pop(&p->lane[POOL_SOON]);
		if (!job)
			job = queue_pop(&p->lane[POOL_LATER]);
		if (job) {
			pthread_mutex_unlock(&p->lock);
			job->run(job);
			pthread_mutex_lock(&p->lock);
		} else if (p->closing) {
			break;
		} else {
			pthread_cond_wait(&p->work, &p->lock);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Workers block all signals: main waits for them. */
static int start_workers(struct pool *p, unsigned n)
{
	sigset_t all, old;
	int rc = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (; p->nworkers < n && !rc; p->nworkers += !rc)
		rc = -pthread_create(&p->worker[p->nworkers], NULL, worker_main, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int pool_open(struct pool **pool, unsigned nworkers)
{
	struct pool *p = mem_zalloc(sizeof *p + nworkers * sizeof p->worker[0]);
	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	for (int i = 0; i < POOL_LANES; i++)
		p->lane[i].tail = &p->lane[i].head;
	int rc = start_workers(p, nworkers);
	if (rc < 0) {
		pool_close(p);
		return rc;
	}
	*pool = p;
	return 0;
}

void pool_close(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->closing = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->nworkers; i++)
		pthread_join(p->worker[i], NULL);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

void pool_submit(struct pool *p, struct pool_job *job, enum pool_lane lane)
{
	if (!p->nworkers) {
		job->run(job);
		return;
	}
	pthread_mutex_lock(&p->lock);
	assert(!p->closing);
	queue_push(&p->lane[lane], job);
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

bool pool_is_idle(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	bool idle = !p->lane[POOL_SOON].head && !p->lane[POOL_LATER].head;
	pthread_mutex_unlock(&p->lock);
	return idle;
}

unsigned pool_size(const struct pool *p)
{
	return p->nworkers;
}
