#include "fs/workspace.h"

#include "fs/large.h"

#include <pthread.h>

/*
 * The most that each buffer keeps: enough for chunks of the usual size, for which getting fresh
 * pages each time would be slow.
 */
#define KEEP_MOST (2u << 20)

static pthread_key_t key;

/* One more workspace, for the thread that borrows it. */
static struct {
	pthread_mutex_t lock;
	struct workspace *ws;  /* under lock; NULL before its first use, and while it is lent */
	struct workspace *own; /* under lock: of the thread that has borrowed it              */
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void workspace_free(void *p)
{
	struct workspace *w = p;
	parallel_close(w->parallel);
	scratch_close(w->scratch);
	buf_free(&w->reply.own);
	buf_free(&w->data);
	buf_free(&w->copy);
	buf_free(&w->stored);
	buf_free(&w->base);
	buf_free(&w->plain);
	buf_free(&w->edits);
	buf_free(&w->record);
	mem_free(w);
}

int workspace_init(void)
{
	return -pthread_key_create(&key, workspace_free);
}

struct workspace *workspace_get(void)
{
	struct workspace *w = pthread_getspecific(key);
	if (w)
		return w;
	w = mem_zalloc(sizeof *w);
	if (!w)
		return NULL;
	if (scratch_open(&w->scratch) < 0 || pthread_setspecific(key, w) != 0) {
		workspace_free(w);
		return NULL;
	}
	scratch_bound(w->scratch, LARGE_FREE);
	return w;
}

static struct scratch *own_scratch(void)
{
	struct workspace *w = workspace_get();
	return w ? w->scratch : NULL;
}

struct parallel *workspace_parallel(struct workspace *w, struct pool *pool)
{
	if (!w->parallel && parallel_open(&w->parallel, pool, own_scratch) < 0)
		w->parallel = NULL;
	return w->parallel;
}

void workspace_done(struct buf *b)
{
	buf_trim(b, KEEP_MOST);
}

void workspace_trim(void)
{
	struct workspace *w = pthread_getspecific(key);
	if (!w)
		return;
	scratch_trim(w->scratch);
	workspace_done(&w->copy);
	workspace_done(&w->stored);
	workspace_done(&w->base);
	workspace_done(&w->plain);
}

bool workspace_borrow(void)
{
	if (pthread_mutex_trylock(&spare.lock) != 0)
		return false;
	spare.own = pthread_getspecific(key);
	if (pthread_setspecific(key, spare.ws) == 0)
		return true;
	pthread_mutex_unlock(&spare.lock);
	return false;
}

void workspace_return(void)
{
	spare.ws = pthread_getspecific(key);
	pthread_setspecific(key, spare.own);
	pthread_mutex_unlock(&spare.lock);
}

void workspace_end_spare(void)
{
	if (spare.ws)
		workspace_free(spare.ws);
	spare.ws = NULL;
}

void workspace_end(void)
{
	struct workspace *w = pthread_getspecific(key);
	if (w)
		workspace_free(w);
	pthread_setspecific(key, NULL);
}
