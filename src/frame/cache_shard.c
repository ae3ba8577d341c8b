#include "frame/cache_shard.h"

#include "base/buf.h"

#include <assert.h>

#define FIRST_BUCKETS 64

int shard_init(struct shard *s)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->filled, NULL);
	s->bucket = mem_zalloc_array(FIRST_BUCKETS, sizeof *s->bucket);
	s->nbuckets = FIRST_BUCKETS;
	return s->bucket ? 0 : -ENOMEM;
}

void shard_deinit(struct shard *s)
{
	assert(s->n == 0);
	mem_free(s->bucket);
	pthread_cond_destroy(&s->filled);
	pthread_mutex_destroy(&s->lock);
}

uint64_t shard_hash(const struct cache_key *key)
{
	uint64_t h = (key->owner * 0x9e3779b97f4a7c15u) ^ (key->item * 0xc2b2ae3d27d4eb4fu);
	h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
	return h ^ (h >> 29);
}

static struct cache_entry **bucket_of(const struct shard *s, uint64_t hash)
{
	return &s->bucket[hash & (s->nbuckets - 1)];
}

struct cache_entry *shard_find(const struct shard *s, uint64_t hash, const struct cache_key *key)
{
	struct cache_entry *e = *bucket_of(s, hash);
	while (e && (e->key.item != key->item || e->key.owner != key->owner))
		e = e->next;
	return e;
}

static void push(struct cache_entry **bucket, struct cache_entry *e)
{
	e->next = *bucket;
	*bucket = e;
}

/* Doubles the number of buckets. If memory is short, the chains just get longer. */
static void grow(struct shard *s)
{
	struct cache_entry **old = s->bucket;
	size_t n = s->nbuckets;
	struct cache_entry **bucket = mem_zalloc_array(n * 2, sizeof *bucket);
	if (!bucket)
		return;
	s->bucket = bucket;
	s->nbuckets = n * 2;
	for (size_t i = 0; i < n; i++)
		for (struct cache_entry *e = old[i], *next; e; e = next) {
			next = e->next;
			push(bucket_of(s, shard_hash(&e->key)), e);
		}
	mem_free(old);
}

void shard_add(struct shard *s, uint64_t hash, struct cache_entry *e)
{
	if (s->n >= s->nbuckets)
		grow(s);
	push(bucket_of(s, hash), e);
	e->found = true;
	s->n++;
}

void shard_queue(struct shard *s, struct cache_entry *e)
{
	e->older = s->newest;
	e->newer = NULL;
	*(s->newest ? &s->newest->newer : &s->oldest) = e;
	s->newest = e;
	e->queued = true;
}

static void unqueue(struct shard *s, struct cache_entry *e)
{
	if (s->hand == e)
		s->hand = e->newer;
	*(e->newer ? &e->newer->older : &s->newest) = e->older;
	*(e->older ? &e->older->newer : &s->oldest) = e->newer;
}

void shard_remove(struct shard *s, struct cache_entry *e)
{
	assert(e->found);
	struct cache_entry **at = bucket_of(s, shard_hash(&e->key));
	while (*at != e) {
		assert(*at);
		at = &(*at)->next;
	}
	*at = e->next;
	e->found = false;
	s->n--;
	if (e->queued)
		unqueue(s, e);
}

/* From old to new; each visited entry is spared once. */
struct cache_entry *shard_victim(struct shard *s)
{
	while (s->oldest) {
		struct cache_entry *e = s->hand ? s->hand : s->oldest;
		s->hand = e->newer;
		if (!e->visited)
			return e;
		e->visited = false;
	}
	return NULL;
}
