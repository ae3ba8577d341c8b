#include "frame/cache.h"

#include "base/buf.h"
#include "base/slab.h"
#include "frame/cache_shard.h"

#include <assert.h>
#include <string.h>

#define SHARDS 16

/* Extra room for entries evicted while in use: they keep their memory, beyond the limit. */
#define SLAB_SLACK (4u << 20)

/*
 * The slab may have enough free memory, but too fragmented. Then up to this many entries are
 * evicted, in the hope that two of them are neighbours; after that, we fall back to malloc.
 */
#define ALLOC_TRIES 64

struct cache {
	size_t max_bytes;
	struct slab *slab;  /* NULL: malloc is used */
	atomic_size_t bytes; /* what counts towards the limit: the cost of entries */
	atomic_size_t lent; /* see cache_lend */
	atomic_uint_fast64_t next_owner;
	atomic_uint next_victim; /* round robin over the shards: evict_next */
	struct shard shard[SHARDS];
};

static struct shard *shard_of(struct cache *c, uint64_t hash)
{
	return &c->shard[(hash >> 58) % SHARDS];
}

/*
 * An entry that is evicted while in use no longer counts towards the limit: such entries are few,
 * and small. A large one counts until its memory is freed.
 */
static bool is_large(const struct cache_entry *e)
{
	return e->value.cost > SLAB_SLACK;
}

static void free_value(struct cache *c, struct cache_value *v)
{
	if (v->release)
		v->release(v->p);
	else if (v->p)
		cache_unalloc(c, v);
}

static void free_entry(struct cache *c, struct cache_entry *e)
{
	if (e->rc >= 0) /* else the fill left no value */
		free_value(c, &e->value);
	if (e->queued && is_large(e))
		atomic_fetch_sub(&c->bytes, e->value.cost);
	mem_free(e);
}

/*
 * Drops a reference. If it was the last, the entry goes on the list `dead`, for free_dead when no
 * shard is locked: freeing takes the slab's lock, and the head of a chunk has much to free.
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

static void free_dead(struct cache *c, struct cache_entry *dead)
{
	while (dead) {
		struct cache_entry *next = dead->next;
		free_entry(c, dead);
		dead = next;
	}
}

/* Removes an entry from its shard, and drops the table's reference. `dead`: see unref. */
static void detach(struct cache *c, struct shard *s, struct cache_entry *e,
		   struct cache_entry **dead)
{
	if (e->queued && !is_large(e))
		atomic_fetch_sub(&c->bytes, e->value.cost);
	shard_remove(s, e);
	unref(e, dead);
}

/* False: the shard is empty. */
static bool evict_one(struct cache *c, struct shard *s, struct cache_entry **dead)
{
	struct cache_entry *e = shard_victim(s);
	if (!e)
		return false;
	s->evicted++;
	detach(c, s, e, dead);
	return true;
}

static bool is_full(struct cache *c)
{
	size_t lent = atomic_load(&c->lent);
	return atomic_load(&c->bytes) > (lent < c->max_bytes ? c->max_bytes - lent : 0);
}

/*
 * Evicts entries until the limit is met. The shard that has grown pays first: otherwise a scan
 * would advance the hands of the others, and evict what SIEVE should keep. If that is not enough,
 * make_room takes from all shards in turn.
 */
static void make_room_in(struct cache *c, struct shard *own)
{
	struct cache_entry *dead = NULL;

	pthread_mutex_lock(&own->lock);
	while (is_full(c) && own->oldest != own->newest)
		(void)evict_one(c, own, &dead);
	pthread_mutex_unlock(&own->lock);
	free_dead(c, dead);
}

/* Evicts one entry of the shard whose turn it is. False: that shard is empty. */
static bool evict_next(struct cache *c)
{
	struct shard *s = &c->shard[atomic_fetch_add(&c->next_victim, 1) % SHARDS];
	struct cache_entry *dead = NULL;

	pthread_mutex_lock(&s->lock);
	bool any = evict_one(c, s, &dead);
	pthread_mutex_unlock(&s->lock);
	free_dead(c, dead);
	return any;
}

static void make_room(struct cache *c)
{
	for (unsigned empty = 0; empty < SHARDS && is_full(c);)
		empty = evict_next(c) ? 0 : empty + 1;
}

int cache_open(struct cache **cache, size_t max_bytes)
{
	struct cache *c = mem_alloc_aligned(sizeof *c); /* shards begin on cache lines */
	if (!c)
		return -ENOMEM;
	memset(c, 0, sizeof *c);
	c->max_bytes = max_bytes;
	bool ok = true;
	for (int i = 0; i < SHARDS; i++)
		ok &= shard_init(&c->shard[i]) == 0;
	/* Without enough address space, malloc is used. */
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
		free_dead(c, dead);
		shard_deinit(s);
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
	if (c->slab && slab_owns(c->slab, v->p))
		slab_free(c->slab, v->p, v->n);
	else
		mem_free(v->p);
	v->p = NULL;
}

/*
 * Waits for another thread's fill. Called with the shard's lock held, which is released meanwhile.
 */
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
	atomic_init(&e->refs, 2); /* one each for the table and the caller */
	shard_add(s, hash, e);
	return e;
}

/* Ends a fill: hands a filled entry to the waiters, or removes a failed one from the table. */
static void publish(struct cache *c, struct shard *s, struct cache_entry *e,
		    struct cache_entry **dead)
{
	e->filled = true;
	if (e->rc < 0) {
		e->why = *err_last();
		if (e->found)
			detach(c, s, e, dead);
		unref(e, dead);
	} else if (e->found) { /* else it was dropped meanwhile */
		shard_queue(s, e);
		atomic_fetch_add(&c->bytes, e->value.cost);
	}
	pthread_cond_broadcast(&s->filled);
}

static int fill_entry(struct cache *c, struct shard *s, struct cache_entry *e,
		      struct cache_fill fill, struct cache_entry **dead)
{
	int rc = fill.make(fill.ctx, &e->value);

	pthread_mutex_lock(&s->lock);
	e->rc = rc;
	publish(c, s, e, dead);
	pthread_mutex_unlock(&s->lock);
	make_room_in(c, s);
	make_room(c);
	return rc;
}

int cache_get(struct cache *c, struct cache_key key, enum cache_touch touch, struct cache_fill fill,
	      struct cache_entry **entry)
{
	uint64_t hash = shard_hash(&key);
	struct shard *s = shard_of(c, hash);
	struct cache_entry *dead = NULL;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	struct cache_entry *e = shard_find(s, hash, &key);
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
		rc = fill_entry(c, s, e, fill, &dead);
	}
	free_dead(c, dead);
	if (rc >= 0)
		*entry = e;
	return rc;
}

struct cache_entry *cache_find(struct cache *c, struct cache_key key)
{
	uint64_t hash = shard_hash(&key);
	struct shard *s = shard_of(c, hash);

	pthread_mutex_lock(&s->lock);
	struct cache_entry *e = shard_find(s, hash, &key);
	if (e && !e->filled)
		e = NULL;
	if (e)
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	pthread_mutex_unlock(&s->lock);
	return e;
}

bool cache_has(struct cache *c, struct cache_key key)
{
	uint64_t hash = shard_hash(&key);
	struct shard *s = shard_of(c, hash);

	pthread_mutex_lock(&s->lock);
	bool has = shard_find(s, hash, &key) != NULL;
	pthread_mutex_unlock(&s->lock);
	return has;
}

void cache_put(struct cache *c, struct cache_entry *e)
{
	struct cache_entry *dead = NULL;

	unref(e, &dead);
	free_dead(c, dead);
}

void cache_hold(struct cache_entry *e)
{
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
	uint64_t hash = shard_hash(&key);
	struct shard *s = shard_of(c, hash);
	struct cache_entry *dead = NULL;

	pthread_mutex_lock(&s->lock);
	struct cache_entry *e = shard_find(s, hash, &key);
	if (e)
		detach(c, s, e, &dead);
	pthread_mutex_unlock(&s->lock);
	free_dead(c, dead);
}

void cache_counts(struct cache *c, struct cache_counts *out)
{
	*out = (struct cache_counts){.bytes = atomic_load(&c->bytes)};
	for (int i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];
		pthread_mutex_lock(&s->lock);
		out->hits += s->hits;
		out->misses += s->misses;
		out->evicted += s->evicted;
		pthread_mutex_unlock(&s->lock);
	}
}
