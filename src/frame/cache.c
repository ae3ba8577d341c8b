#include "frame/cache.h"

#include "base/hash.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#define SHARDS 16

struct cache_entry {
	struct cache_key key;
	struct cache_value value; /* fixed once filled */
	int rc;                   /* of the fill, for those who waited */
	unsigned refs;            /* users, plus one while in the table; under the shard's lock */
	bool filled, listed, visited;
	struct cache_entry *newer, *older;
	UT_hash_handle hh;
};

struct shard {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct cache_entry *table;  /* all below under lock */
	struct cache_entry *newest, *oldest, *hand;
	size_t bytes;
	uint64_t hits, misses, evicted;
};

struct cache {
	size_t max_shard_bytes;
	atomic_uint_fast64_t next_owner;
	struct shard shard[SHARDS];
};

static struct shard *shard_of(struct cache *c, const struct cache_key *key)
{
	uint64_t h = (key->owner * 0x9e3779b97f4a7c15u) ^ (key->item * 0xc2b2ae3d27d4eb4fu);
	return &c->shard[(h >> 32) % SHARDS];
}

static void list_add(struct shard *s, struct cache_entry *e)
{
	e->older = s->newest;
	e->newer = NULL;
	if (s->newest)
		s->newest->newer = e;
	else
		s->oldest = e;
	s->newest = e;
	e->listed = true;
}

static void list_remove(struct shard *s, struct cache_entry *e)
{
	if (s->hand == e)
		s->hand = e->newer;
	*(e->newer ? &e->newer->older : &s->newest) = e->older;
	*(e->older ? &e->older->newer : &s->oldest) = e->newer;
	e->listed = false;
}

/* Drops one reference; what has to be released is linked into *dead for after the lock. */
static void unref(struct cache_entry *e, struct cache_entry **dead)
{
	assert(e->refs > 0);
	if (--e->refs == 0) {
		e->older = *dead;
		*dead = e;
	}
}

static void bury(struct cache_entry *dead)
{
	while (dead) {
		struct cache_entry *next = dead->older;
		if (dead->value.release)
			dead->value.release(dead->value.p);
		mem_free(dead);
		dead = next;
	}
}

static void detach(struct shard *s, struct cache_entry *e, struct cache_entry **dead)
{
	HASH_DEL(s->table, e);
	if (e->listed) {
		list_remove(s, e);
		s->bytes -= e->value.cost;
	}
	unref(e, dead);
}

/* SIEVE: from old to new, sparing once what was visited. */
static void evict(struct cache *c, struct shard *s, struct cache_entry **dead)
{
	while (s->bytes > c->max_shard_bytes && s->oldest) {
		struct cache_entry *e = s->hand ? s->hand : s->oldest;
		s->hand = e->newer;
		if (e->visited) {
			e->visited = false;
			continue;
		}
		s->evicted++;
		detach(s, e, dead);
	}
}

int cache_open(struct cache **cache, size_t max_bytes)
{
	struct cache *c = mem_zalloc(sizeof *c);
	if (!c)
		return -ENOMEM;
	c->max_shard_bytes = max_bytes / SHARDS;
	for (int i = 0; i < SHARDS; i++) {
		pthread_mutex_init(&c->shard[i].lock, NULL);
		pthread_cond_init(&c->shard[i].filled, NULL);
	}
	*cache = c;
	return 0;
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	for (int i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];
		struct cache_entry *e, *next, *dead = NULL;
		HASH_ITER(hh, s->table, e, next) {
			assert(e->refs == 1);
			detach(s, e, &dead);
		}
		bury(dead);
		pthread_cond_destroy(&s->filled);
		pthread_mutex_destroy(&s->lock);
	}
	mem_free(c);
}

uint64_t cache_new_owner(struct cache *c)
{
	return atomic_fetch_add(&c->next_owner, 1) + 1;
}

/* Another thread's fill. Called with the lock held, which it gives up for the wait. */
static int wait_for_fill(struct shard *s, struct cache_entry *e, struct cache_entry **dead)
{
	while (!e->filled)
		pthread_cond_wait(&s->filled, &s->lock);
	int rc = e->rc;
	if (rc < 0)
		unref(e, dead);
	return rc;
}

static struct cache_entry *add_unfilled(struct shard *s, struct cache_key key)
{
	struct cache_entry *e = mem_zalloc(sizeof *e);
	if (!e)
		return NULL;
	e->key = key;
	e->refs = 2; /* the table and the caller */
	HASH_ADD(hh, s->table, key, sizeof e->key, e);
	if (!e->hh.tbl) { /* no memory for the table itself */
		mem_free(e);
		return NULL;
	}
	return e;
}

/* Makes a filled entry findable, or takes a failed one away. */
static void publish(struct cache *c, struct shard *s, struct cache_entry *e, struct cache_entry **dead)
{
	struct cache_entry *found;

	e->filled = true;
	HASH_FIND(hh, s->table, &e->key, sizeof e->key, found);
	if (found != e) { /* dropped meanwhile: the users that have it may finish */
		if (e->rc < 0)
			unref(e, dead);
	} else if (e->rc < 0) {
		detach(s, e, dead);
		unref(e, dead);
	} else {
		list_add(s, e);
		s->bytes += e->value.cost;
		evict(c, s, dead);
	}
	pthread_cond_broadcast(&s->filled);
}

int cache_get(struct cache *c, struct cache_key key, cache_fill *fill, void *ctx,
	      struct cache_entry **entry)
{
	struct shard *s = shard_of(c, &key);
	struct cache_entry *e, *dead = NULL;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	HASH_FIND(hh, s->table, &key, sizeof key, e);
	if (e) {
		s->hits++;
		e->refs++;
		e->visited = true;
		rc = wait_for_fill(s, e, &dead);
	} else {
		s->misses++;
		e = add_unfilled(s, key);
		if (!e) {
			pthread_mutex_unlock(&s->lock);
			return -ENOMEM;
		}
		pthread_mutex_unlock(&s->lock);
		rc = fill(ctx, &e->value);
		pthread_mutex_lock(&s->lock);
		e->rc = rc;
		publish(c, s, e, &dead);
	}
	pthread_mutex_unlock(&s->lock);
	bury(dead);
	if (rc >= 0)
		*entry = e;
	return rc;
}

void cache_put(struct cache *c, struct cache_entry *e)
{
	struct shard *s = shard_of(c, &e->key);
	struct cache_entry *dead = NULL;

	pthread_mutex_lock(&s->lock);
	unref(e, &dead);
	pthread_mutex_unlock(&s->lock);
	bury(dead);
}

void *cache_value(const struct cache_entry *e)
{
	assert(e->filled);
	return e->value.p;
}

void cache_drop(struct cache *c, struct cache_key key)
{
	struct shard *s = shard_of(c, &key);
	struct cache_entry *e, *dead = NULL;

	pthread_mutex_lock(&s->lock);
	HASH_FIND(hh, s->table, &key, sizeof key, e);
	if (e)
		detach(s, e, &dead);
	pthread_mutex_unlock(&s->lock);
	bury(dead);
}

void cache_counts(struct cache *c, struct cache_counts *out)
{
	*out = (struct cache_counts){0};
	for (int i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];
		pthread_mutex_lock(&s->lock);
		out->hits += s->hits;
		out->misses += s->misses;
		out->evicted += s->evicted;
		out->bytes += s->bytes;
		pthread_mutex_unlock(&s->lock);
	}
}
