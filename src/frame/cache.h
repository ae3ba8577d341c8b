/*
 * A cache of decoded blocks, parsed chunk heads and stored chunks on their way to readers, bounded
 * in bytes.
 *
 * Sharded by key; a shard is a hash table and a SIEVE queue (Zhang et al., NSDI 2024): one visited
 * bit an entry and a hand that walks from old to new, evicting what was not touched since it last
 * came by. A scan therefore passes through without displacing what is used, and a hit writes one
 * bit. S3-FIFO does about as well on blocks, but needs two queues and ghosts. SIEVE has one
 * weakness: a block that one scan touches several times looks used. So the caller says which
 * touches belong to a scan and do not count.
 *
 * Single-flight: of several threads that ask for a missing key, one fills it
 * and the others wait. An entry can be found only once it is filled; a failed
 * fill leaves nothing behind.
 *
 * Threads: all functions from any thread. A shard's lock is never held while
 * filling, and a fill may itself call cache_get.
 */
#ifndef FRAME_CACHE_H
#define FRAME_CACHE_H

#include "base/bytes.h"
#include "base/err.h"

struct cache;

struct cache_key {
	uint64_t owner; /* who the entry belongs to; never reused (see cache_new_owner) */
	uint64_t item;
};

/*
 * What a fill produces: bytes of cache_alloc, or with `release` anything else, whose
 * `cost` in bytes the fill knows. `release` is called once when the last user is gone.
 */
struct cache_value {
	void *p;
	size_t n;
	size_t cost;
	unsigned tag; /* what kind of value it is: for the users of the cache to agree on */
	void (*release)(void *p);
};

/* An entry in use. The value stays valid until cache_put, even when evicted or dropped. */
struct cache_entry;

typedef int cache_fill(void *ctx, struct cache_value *out);

NODISCARD int cache_open(struct cache **cache, size_t max_bytes);
void cache_close(struct cache *cache); /* no entry may be in use; NULL is fine */

size_t cache_max(const struct cache *cache);

/*
 * So many bytes of the limit are for others now; more than all of it is fine. Entries make room
 * before it returns, and the memory has gone back to the system.
 */
void cache_lend(struct cache *cache, size_t bytes);

/* A number that was never an owner before. */
uint64_t cache_new_owner(struct cache *cache);

/*
 * In a fill: n > 0 bytes that the entry will own, in
 * out->p. A fill that fails after it gives them back.
 */
NODISCARD int cache_alloc(struct cache *cache, size_t n, struct cache_value *out);
void cache_unalloc(struct cache *cache, struct cache_value *v);

/* Memory for what comes next, got by a thread that has time for it: see slab.h. */
bool cache_wants_warm(struct cache *cache);
void cache_warm(struct cache *cache);

/* A touch that is likely to be repeated, or one of a scan. */
enum cache_touch { CACHE_USE, CACHE_SCAN };

/* Finds or fills. The failure of a fill is returned to the one that filled and to all waiters. */
NODISCARD int cache_get(struct cache *cache, struct cache_key key, enum cache_touch touch,
			cache_fill *fill, void *ctx, struct cache_entry **entry);

/* The entry if it is there and filled, else NULL. */
struct cache_entry *cache_find(struct cache *cache, struct cache_key key);

/* True: it is there, or somebody is filling it. */
bool cache_has(struct cache *cache, struct cache_key key);

void cache_put(struct cache *cache, struct cache_entry *entry);

/* One more use of an entry that is in use. */
void cache_hold(struct cache *cache, struct cache_entry *entry);

/*
 * An entry that was filled ahead and that nobody has used so far: noted by the one that filled it,
 * true once for the first that finds it.
 */
void cache_mark_unused(struct cache_entry *entry);
bool cache_first_use(struct cache_entry *entry);

void *cache_value(const struct cache_entry *entry);
unsigned cache_tag(const struct cache_entry *entry);
struct view cache_bytes(const struct cache_entry *entry);

/* Forgets a key. The caller makes sure that nobody is filling it with old bytes now. */
void cache_drop(struct cache *cache, struct cache_key key);

struct cache_counts {
	uint64_t hits, misses, evicted, bytes;
};
void cache_counts(struct cache *cache, struct cache_counts *out);

#endif
