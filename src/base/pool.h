/*
 * A fixed number of worker threads and a queue. A job is embedded in the
 * caller's struct and owns all that it touches from submission until `run`
 * returns; the pool never allocates after it is open.
 *
 * Two lanes: a job in POOL_SOON runs before every waiting job in POOL_LATER.
 * A reader waits for the first kind (decode), the second is work ahead of
 * need (compression, read-ahead). The queue is bounded by the callers: each has a budget
 * of its own (dirty bytes, read-ahead window) that limits what it submits.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/err.h"

#include <stdbool.h>

struct pool;
struct pool_job;

typedef void pool_fn(struct pool_job *job, unsigned worker);

struct pool_job {
	pool_fn *run; /* `worker` is 0 .. n-1, for per-worker workspaces */
	struct pool_job *next;
};

enum pool_lane { POOL_SOON, POOL_LATER, POOL_LANES };

NODISCARD int pool_open(struct pool **pool, unsigned nworkers);

/* Runs all that is queued, then ends the workers. NULL is fine. */
void pool_close(struct pool *pool);

/* Never blocks. The job must stay alive until its `run` has been called. */
void pool_submit(struct pool *pool, struct pool_job *job, enum pool_lane lane);

unsigned pool_size(const struct pool *pool);

/* True: no job is waiting, so that workers without one will stay idle for the moment. */
bool pool_is_idle(struct pool *pool);

#endif
