#include "crew.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/container.h"

#include <pthread.h>

struct crew;

struct helper {
	struct pool_job job;
	struct crew *crew;
};

/* It may outlive the call: a helper that starts late finds nothing to do. */
struct crew {
	int (*each)(void *arg, uint32_t i);
	void *arg;
	pthread_mutex_t lock; /* for what follows                     */
	pthread_cond_t idle;  /* no thread is working on a part       */
	uint32_t next, end;   /* parts that are not taken yet         */
	unsigned busy;        /* threads that work on a part          */
	unsigned users;       /* helpers, and the caller              */
	uint32_t bad;         /* the first part that failed           */
	int rc;               /* its failure                          */
	struct helper helper[];
};

static void fail(struct crew *c, uint32_t part, int rc)
{
	if (c->rc < 0 && c->bad < part)
		return;
	c->bad = part;
	c->rc = rc;
	c->next = c->end;
}

/* Does parts until there are none. Called, and returns, with the lock held. */
static void work(struct crew *c)
{
	while (c->next < c->end) {
		uint32_t part = c->next++;
		c->busy++;
		pthread_mutex_unlock(&c->lock);
		int rc = c->each(c->arg, part);
		pthread_mutex_lock(&c->lock);
		if (rc < 0)
			fail(c, part, rc);
		if (!--c->busy)
			pthread_cond_signal(&c->idle);
	}
}

/* Releases the lock, and a reference of the caller or a helper to the crew. */
static void leave(struct crew *c)
{
	bool last = !--c->users;

	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	pthread_cond_destroy(&c->idle);
	pthread_mutex_destroy(&c->lock);
	mem_free(c);
}

static void run(struct pool_job *job)
{
	struct crew *c = CONTAINER_OF(job, struct helper, job)->crew;

	pthread_mutex_lock(&c->lock);
	work(c);
	leave(c);
}

static struct crew *crew_new(unsigned helpers)
{
	struct crew *c = mem_zalloc(sizeof *c + helpers * sizeof c->helper[0]);

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->idle, NULL);
	c->users = 1 + helpers;
	return c;
}

static int by_many(struct crew *c)
{
	pthread_mutex_lock(&c->lock);
	work(c);
	while (c->busy)
		pthread_cond_wait(&c->idle, &c->lock);
	int rc = c->rc;
	uint32_t bad = c->bad;
	int (*each)(void *arg, uint32_t i) = c->each;
	void *arg = c->arg;
	leave(c);
	if (rc < 0) {
		err_clear();
		int again = each(arg, bad);
		rc = again < 0 ? again : rc;
	}
	return rc;
}

int crew_each(struct pool *pool, uint32_t first, uint32_t n,
	      int (*each)(void *arg, uint32_t i), void *arg)
{
	uint64_t threads = min_u64(pool_size(pool), n); /* including the caller */
	unsigned helpers = threads > 1 ? (unsigned)threads - 1 : 0;
	struct crew *c = helpers ? crew_new(helpers) : NULL;

	for (uint32_t i = first; !c && i < first + n; i++)
		TRY(each(arg, i));
	if (!c)
		return 0;
	c->each = each;
	c->arg = arg;
	c->next = first;
	c->end = first + n;
	for (unsigned i = 0; i < helpers; i++) {
		c->helper[i].crew = c;
		c->helper[i].job.run = run;
		pool_submit(pool, &c->helper[i].job, POOL_LATER);
	}
	return by_many(c);
}
