#include "fs/large.h"

#include "base/buf.h"

#include <assert.h>
#include <pthread.h>

/*
 * How much may be in use in addition to a full cache; beyond that the cache lends memory. README
 * promises that everything except dirty data and cache stays within 64 MiB: the rest of that is for
 * threads, open files and libraries.
 */
#define BESIDE (16u << 20)

/* In large_take. */
struct taker {
	struct taker *next;
	pthread_cond_t turn;
};

struct large {
	pthread_mutex_t lock; /* for all below; the cache's are taken within it */
	struct cache *cache;
	uint64_t most;        /* fixed, as is the one above */
	uint64_t taken, used;
	uint64_t pressed; /* see large_press */
	struct taker *first, **last; /* in order of arrival */
};

int large_open(struct large **out, struct cache *cache)
{
	struct large *l = mem_zalloc(sizeof *l);
	if (!l)
		return -ENOMEM;
	pthread_mutex_init(&l->lock, NULL);
	l->cache = cache;
	l->most = large_most_beside(cache_max(cache));
	l->last = &l->first;
	*out = l;
	return 0;
}

void large_close(struct large *l)
{
	if (!l)
		return;
	assert(!l->taken && !l->used && !l->pressed && !l->first);
	pthread_mutex_destroy(&l->lock);
	mem_free(l);
}

uint64_t large_most(const struct large *l)
{
	return l->most;
}

/* Under the lock. */
static void wait_for_turn(struct large *l, uint64_t bytes)
{
	struct taker t = {0};

	if (!l->first && l->taken + bytes <= l->most)
		return;
	pthread_cond_init(&t.turn, NULL);
	*l->last = &t;
	l->last = &t.next;
	while (l->first != &t || l->taken + bytes > l->most)
		pthread_cond_wait(&t.turn, &l->lock);
	l->first = t.next;
	if (!l->first)
		l->last = &l->first;
	else /* there may be room for the next one, too */
		pthread_cond_signal(&l->first->turn);
	pthread_cond_destroy(&t.turn);
}

int large_take(struct large *l, uint64_t bytes)
{
	if (bytes > l->most)
		return -E2BIG;
	pthread_mutex_lock(&l->lock);
	wait_for_turn(l, bytes);
	l->taken += bytes;
	pthread_mutex_unlock(&l->lock);
	return 0;
}

/* Under the lock. */
static void lend(struct large *l)
{
	uint64_t all = l->used + l->pressed;
	cache_lend(l->cache, all > BESIDE ? all - BESIDE : 0);
}

void large_press(struct large *l, int64_t bytes)
{
	pthread_mutex_lock(&l->lock);
	l->pressed += (uint64_t)bytes;
	lend(l);
	pthread_mutex_unlock(&l->lock);
}

bool large_borrow(struct large *l, uint64_t bytes)
{
	pthread_mutex_lock(&l->lock);
	bool fits = l->used + l->pressed + bytes <= (BESIDE + cache_max(l->cache)) / 2;
	if (fits) {
		l->pressed += bytes;
		lend(l);
	}
	pthread_mutex_unlock(&l->lock);
	return fits;
}

void large_return(struct large *l, uint64_t bytes)
{
	large_press(l, -(int64_t)bytes);
}

void large_use(struct large *l, uint64_t bytes)
{
	pthread_mutex_lock(&l->lock);
	l->used += bytes;
	assert(l->used <= l->taken);
	lend(l);
	pthread_mutex_unlock(&l->lock);
}

void large_give(struct large *l, uint64_t taken, uint64_t used)
{
	pthread_mutex_lock(&l->lock);
	assert(taken <= l->taken && used <= l->used);
	l->taken -= taken;
	l->used -= used;
	lend(l);
	if (l->first)
		pthread_cond_signal(&l->first->turn);
	pthread_mutex_unlock(&l->lock);
}
