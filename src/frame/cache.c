#include "frame/cache.h"

#include "base/buf.h"
#include "base/slab.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#define SHARDS 16
#define FIRST_BUCKETS 64

/* Room for entries that were evicted while in use: they keep their memory, beyond the limit. */
#define SLAB_SLACK (4u << 20)

/*
 * The slab may have enough room, but none of the size that is wanted. Then so many entries are
 * evicted, in the hope that two of them are neighbours; after that malloc has to do.
 */
#define ALLOC_TRIES 64

struct cache_entry {
	struct cache_key key;
	struct cache_entry *next; /* in its bucket; under the shard's lock, like all down to `rc` */
	struct cache_entry *newer, *older; /* in the shard's queue, while `listed` */
	bool found;                        /* it is still in the table, for others to find */
	bool filled;                       /* the fill has ended, successfully if `rc` is 0 */
	bool listed;                       /* it is in the queue */
	bool counted;                      /* its cost was added to cache.bytes */
	bool visited;                      /* used since the hand came by */
	int rc;                            /* of the fill, for those who waited */
	atomic_bool unused;                /* it was filled ahead, and nobody has used it yet */
	atomic_uint refs;                  /* users, plus one while it is in the table */
	union {                            /* fixed once filled */
		struct cache_value value;
		struct err_note why;       /* rc < 0: the cause, for those who waited */
	};
};

struct shard {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct cache_entry **bucket; /* all below under lock */
	size_t nbuckets, n;          /* nbuckets: a power of two; n: entries in the table */
	struct cache_entry *newest, *oldest, *hand; /* of the queue, which filled entries are in */
	size_t bytes;                /* cost of the entries in the queue */
	uint64_t hits, misses, evicted;
} __attribute__((aligned(64)));

struct cache {
	size_t max_bytes;
	struct slab *slab;  /* NULL: there is none, and malloc is used */
	atomic_size_t bytes; /* what counts towards the limit: the cost of entries */
	atomic_size_t lent; /* see cache_lend */
	atomic_uint_fast64_t next_owner;
	atomic_uint next_victim; /* counts through the shards: evict_next */
	struct shard shard[SHARDS];
};

static uint64_t hash_of(const struct cache_key *key)
{
	uint64_t h = (key->owner * 0x9e3779b97f4a7c15u) ^ (key->item * 0xc2b2ae3d27d4eb4fu);
	h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
	return h ^ (h >> 29);
}

static struct shard *shard_of(struct cache *c, uint64_t hash)
{
	return &c->shard[(hash >> 58) % SHARDS];
}

/* The link that points to the entry with that key, or else the last link of the bucket. */
static struct cache_entry **find(struct shard *s, uint64_t hash, const struct cache_key *key)
{
	struct cache_entry **at = &s->bucket[hash & (s->nbuckets - 1)];
	while (*at && ((*at)->key.item != key->item || (*at)->key.owner != key->owner))
		at = &(*at)->next;
	return at;
}

/* Doubles the number of buckets. If memory is short the chains just get longer. */
static void grow(struct shard *s)
{
	size_t n = s->nbuckets * 2;
	struct cache_entry **bucket = mem_zalloc_array(n, sizeof *bucket);
	if (!bucket)
		return;
	for (size_t i = 0; i < s->nbuckets; i++)
		for (struct cache_entry *e = s->bucket[i], *next; e; e = next) {
			struct cache_entry **at = &bucket[hash_of(&e->key) & (n - 1)];
			next = e->next;
			e->next = *at;
			*at = e;
		}
	mem_free(s->bucket);
	s->bucket = bucket;
	s->nbuckets = n;
}

static void list_add(struct shard *s, struct cache_entry *e)
{
	e->older = s->newest;
	e->newer = NULL;
	*(s->newest ? &s->newest->newer : &s->oldest) = e;
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

/*
 * An entry that is evicted while in use no longer counts towards the limit: such entries are few,
 * and small. A large one counts until its memory is freed.
 */
static bool is_large(const struct cache_entry *e)
{
	return e->value.cost > SLAB_SLACK;
}

static void free_value(struct cache *c, struct cache_entry *e)
{
	struct cache_value *v = &e->value;
	if (e->rc < 0)
		; /* the fill has kept nothing */
	else if (v->release)
		v->release(v->p);
	else if (v->p)
		cache_unalloc(c, v);
	if (e->rc >= 0 && e->counted && is_large(e))
		atomic_fetch_sub(&c->bytes, v->cost);
	mem_free(e);
}

/*
 * Drops a reference. If it was the last, the entry is put on the list `dead`, to be freed (bury)
 * when no shard is locked: freeing takes the slab's lock, and the head of a chunk has much to free.
 */
static void unref(struct cache_entry *e, struct cache_entry **dead)
{
	unsigned before = atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel);
	assert(before > 0);
	if (before == 1) {
		e->next = *dead;
		*dead = e;
	}
}

static void bury(struct cache *c, struct cache_entry *dead)
{
	while (dead) {
		struct cache_entry *next = dead->next;
		free_value(c, dead);
		dead = next;
	}
}

static void detach(struct cache *c, struct shard *s, struct cache_entry *e,
		   struct cache_entry **dead)
{
	struct cache_entry **at = find(s, hash_of(&e->key), &e->key);
	assert(*at == e);
	*at = e->next;
	s->n--;
	e->found = false;
	if (e->listed) {
		list_remove(s, e);
		s->bytes -= e->value.cost;
		if (!is_large(e))
			atomic_fetch_sub(&c->bytes, e->value.cost);
	}
	unref(e, dead);
}

/*
 * Evicts one entry by SIEVE: goes from old to new, and spares each visited one once. False: the
 * shard is empty.
 */
static bool evict_one(struct cache *c, struct shard *s, struct cache_entry **dead)
{
	while (s->oldest) {
		struct cache_entry *e = s->hand ? s->hand : s->oldest;
		s->hand = e->newer;
		if (!e->visited) {
			s->evicted++;
			detach(c, s, e, dead);
			return true;
		}
		e->visited = false;
	}
	return false;
}

static bool is_full(struct cache *c)
{
	size_t lent = atomic_load(&c->lent);
	return atomic_load(&c->bytes) > (lent < c->max_bytes ? c->max_bytes - lent : 0);
}

/*
 * Evicts entries until the limit is met. The shard that has grown pays first: otherwise the hands
 * of the others would come round during a scan, and evict what SIEVE should keep. What it cannot
 * give, all shards give in turn.
 */
static void make_room_in(struct cache *c, struct shard *own)
{
	struct cache_entry *dead = NULL;

	pthread_mutex_lock(&own->lock);
	while (is_full(c) && own->oldest != own->newest)
		(void)evict_one(c, own, &dead);
	pthread_mutex_unlock(&own->lock);
	bury(c, dead);
}

/* Evicts one entry of the shard whose turn it is. False: that shard is empty. */
static bool evict_next(struct cache *c)
{
	struct shard *s = &c->shard[atomic_fetch_add(&c->next_victim, 1) % SHARDS];
	struct cache_entry *dead = NULL;

	pthread_mutex_lock(&s->lock);
	bool any = evict_one(c, s, &dead);
	pthread_mutex_unlock(&s->lock);
	bury(c, dead);
	return any;
}

static void make_room(struct cache *c)
{
	for (unsigned empty = 0; empty < SHARDS && is_full(c);)
		empty = evict_next(c) ? 0 : empty + 1;
}

int cache_open(struct cache **cache, size_t max_bytes)
{
	struct cache *c = mem_zalloc(sizeof *c);
	if (!c)
		return -ENOMEM;
	c->max_bytes = max_bytes;
	bool ok = true;
	for (int i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];
		pthread_mutex_init(&s->lock, NULL);
		pthread_cond_init(&s->filled, NULL);
		s->bucket = mem_zalloc_array(FIRST_BUCKETS, sizeof *s->bucket);
		s->nbuckets = FIRST_BUCKETS;
		ok &= s->bucket != NULL;
	}
	/* If there is not enough address space, malloc is used. */
	if (slab_open(&c->slab, min_u64(max_bytes, SIZE_MAX / 4) + SLAB_SLACK) < 0)
		c->slab = NULL;
	if (!ok) {
		cache_close(c);
		return -ENOMEM;
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
		struct cache_entry *dead = NULL;
		while (s->oldest) {
			assert(atomic_load(&s->oldest->refs) == 1);
			detach(c, s, s->oldest, &dead);
		}
		bury(c, dead);
		assert(s->n == 0);
		mem_free(s->bucket);
		pthread_cond_destroy(&s->filled);
		pthread_mutex_destroy(&s->lock);
	}
	slab_close(c->slab);
	mem_free(c);
}

size_t cache_max(const struct cache *c)
{
	return c->max_bytes;
}

void cache_lend(struct cache *c, size_t bytes)
{
	if (atomic_exchange(&c->lent, bytes) >= bytes)
		return;
	make_room(c);
	if (c->slab)
		slab_trim(c->slab);
}

uint64_t cache_new_owner(struct cache *c)
{
	return atomic_fetch_add(&c->next_owner, 1) + 1;
}

static bool is_in_slab(const struct cache *c, const void *p)
{
	return c->slab && slab_owns(c->slab, p);
}

int cache_alloc(struct cache *c, size_t n, struct cache_value *out)
{
	size_t size = slab_size(n);
	void *p = NULL;
	assert(n > 0);
	for (int i = 0; c->slab && size && !(p = slab_alloc(c->slab, n)) && i < ALLOC_TRIES; i++)
		(void)evict_next(c);
	if (!p) {
		size = (n + BUF_ALIGN - 1) & ~(size_t)(BUF_ALIGN - 1);
		p = size < n ? NULL : mem_alloc_aligned(size);
	}
	if (!p)
		return -ENOMEM;
	*out = (struct cache_value){.p = p, .n = n, .cost = size + sizeof(struct cache_entry)};
	return 0;
}

bool cache_wants_warm(struct cache *c)
{
	return c->slab && slab_wants_warm(c->slab);
}

void cache_warm(struct cache *c)
{
	slab_warm(c->slab);
}

void cache_unalloc(struct cache *c, struct cache_value *v)
{
	if (is_in_slab(c, v->p))
		slab_free(c->slab, v->p, v->n);
	else
		mem_free(v->p);
	v->p = NULL;
}

/* Waits for another thread's fill. Called with the lock held, which it releases while it waits. */
static int wait_for_fill(struct shard *s, struct cache_entry *e, struct cache_entry **dead)
{
	while (!e->filled)
		pthread_cond_wait(&s->filled, &s->lock);
	int rc = e->rc;
	if (rc < 0) {
		err_repeat(&e->why);
		unref(e, dead);
	}
	return rc;
}

static struct cache_entry *add_unfilled(struct shard *s, uint64_t hash, struct cache_key key)
{
	struct cache_entry *e = mem_zalloc(sizeof *e);
	if (!e)
		return NULL;
	e->key = key;
	e->found = true;
	atomic_init(&e->refs, 2); /* the table and the caller */
	if (s->n >= s->nbuckets)
		grow(s);
	struct cache_entry **at = &s->bucket[hash & (s->nbuckets - 1)];
	e->next = *at;
	*at = e;
	s->n++;
	return e;
}

/* Ends a fill: hands a filled entry to those who wait, or removes a failed one from the table. */
static void publish(struct cache *c, struct shard *s, struct cache_entry *e,
		    struct cache_entry **dead)
{
	e->filled = true;
	if (e->rc < 0) {
		if (e->found)
			detach(c, s, e, dead);
		unref(e, dead);
	} else if (e->found) { /* else dropped meanwhile: the users that have it may finish */
		list_add(s, e);
		e->counted = true;
		s->bytes += e->value.cost;
		atomic_fetch_add(&c->bytes, e->value.cost);
	}
	pthread_cond_broadcast(&s->filled);
}

int cache_get(struct cache *c, struct cache_key key, enum cache_touch touch, cache_fill *fill,
	      void *ctx, struct cache_entry **entry)
{
	uint64_t hash = hash_of(&key);
	struct shard *s = shard_of(c, hash);
	struct cache_entry *dead = NULL;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	struct cache_entry *e = *find(s, hash, &key);
	if (e) {
		s->hits++;
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
		if (touch == CACHE_USE)
			e->visited = true;
		rc = wait_for_fill(s, e, &dead);
		pthread_mutex_unlock(&s->lock);
	} else {
		s->misses++;
		e = add_unfilled(s, hash, key);
		pthread_mutex_unlock(&s->lock);
		if (!e)
			return -ENOMEM;
		rc = fill(ctx, &e->value);
		pthread_mutex_lock(&s->lock);
		e->rc = rc;
		if (rc < 0)
			e->why = *err_last();
		publish(c, s, e, &dead);
		pthread_mutex_unlock(&s->lock);
		make_room_in(c, s);
		make_room(c);
	}
	bury(c, dead);
	if (rc >= 0)
		*entry = e;
	return rc;
}

struct cache_entry *cache_find(struct cache *c, struct cache_key key)
{
	uint64_t hash = hash_of(&key);
	struct shard *s = shard_of(c, hash);

	pthread_mutex_lock(&s->lock);
	struct cache_entry *e = *find(s, hash, &key);
	if (e && !e->filled)
		e = NULL;
	if (e)
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	pthread_mutex_unlock(&s->lock);
	return e;
}

bool cache_has(struct cache *c, struct cache_key key)
{
	uint64_t hash = hash_of(&key);
	struct shard *s = shard_of(c, hash);

	pthread_mutex_lock(&s->lock);
	bool has = *find(s, hash, &key) != NULL;
	pthread_mutex_unlock(&s->lock);
	return has;
}

void cache_put(struct cache *c, struct cache_entry *e)
{
	struct cache_entry *dead = NULL;

	unref(e, &dead);
	bury(c, dead);
}

void cache_hold(struct cache *c, struct cache_entry *e)
{
	(void)c;
	atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
}

void cache_mark_unused(struct cache_entry *e)
{
	atomic_store_explicit(&e->unused, true, memory_order_relaxed);
}

bool cache_first_use(struct cache_entry *e)
{
	return atomic_load_explicit(&e->unused, memory_order_relaxed) &&
	       atomic_exchange_explicit(&e->unused, false, memory_order_relaxed);
}

void *cache_value(const struct cache_entry *e)
{
	return e->value.p;
}

unsigned cache_tag(const struct cache_entry *e)
{
	return e->value.tag;
}

struct view cache_bytes(const struct cache_entry *e)
{
	return view_of(e->value.p, e->value.n);
}

void cache_drop(struct cache *c, struct cache_key key)
{
	uint64_t hash = hash_of(&key);
	struct shard *s = shard_of(c, hash);
	struct cache_entry *dead = NULL;

	pthread_mutex_lock(&s->lock);
	struct cache_entry *e = *find(s, hash, &key);
	if (e)
		detach(c, s, e, &dead);
	pthread_mutex_unlock(&s->lock);
	bury(c, dead);
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
