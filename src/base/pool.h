/*
 * A fixed number of worker threads and a queue. A job is embedded in the caller's struct, and owns
 * everything that it touches from submission until `run` returns. Once open, the pool never
 * allocates.
 *
 * There are two lanes: a job in POOL_SOON runs before all waiting jobs in POOL_LATER. The first is
 * for work that somebody is waiting for or soon will (blocks of a chunk that several threads share,
 * read-ahead), the second for everything else (compression). The queue has no limit of its own:
 * each caller has a budget (dirty bytes, read-ahead window) that limits what it submits.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/err.h"

#include <stdbool.h>

struct pool;

struct pool_job {
	void (*run)(struct pool_job *job);
	struct pool_job *next; /* private to the pool */
};

/* The most workers that a user may ask for. */
#define POOL_MOST 256

/*
 * How many threads can run at the same time, at most POOL_MOST: on the processors that this process
 * may use (taskset, a container, a batch system), which need not be all.
 */
unsigned pool_cores(void);

/* Threads started from now on use less address space: 1 MiB of stack, not 8. */
void pool_small_stacks(void);

enum pool_lane { POOL_SOON, POOL_LATER, POOL_LANES };

/*
 * -EAGAIN: the system allows no more threads. With nworkers == 0 jobs run inside pool_submit, so
 * the caller must not hold any lock that a job takes.
 */
NODISCARD int pool_open(struct pool **pool, unsigned nworkers);

/* Runs all queued jobs, then ends the workers. NULL is fine. */
void pool_close(struct pool *pool);

/* Never blocks if there are workers. The job must stay alive until its `run` has been called. */
void pool_submit(struct pool *pool, struct pool_job *job, enum pool_lane lane);

unsigned pool_size(const struct pool *pool);

/* True: no job is waiting, so idle workers will stay idle for the moment. */
bool pool_is_idle(struct pool *pool);

#endif
