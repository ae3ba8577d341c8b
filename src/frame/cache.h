/*
 * A cache of decoded blocks and parsed chunk heads, bounded in bytes.
 *
 * Sharded by key; a shard is a hash table and a SIEVE queue (Zhang et al.,
 * NSDI 2024): one visited bit an entry and a hand that walks from old to new,
 * evicting what was not touched since it last came by. A scan therefore passes through
 * without displacing what is used, and a hit writes one bit.
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

/* What a fill produces. `release` is called once when the last user is gone. */
struct cache_value {
	void *p;
	size_t cost; /* bytes of memory, all told */
	void (*release)(void *p);
};

/* An entry in use. The value stays valid until cache_put, even when evicted or dropped. */
struct cache_entry;

typedef int cache_fill(void *ctx, struct cache_value *out);

NODISCARD int cache_open(struct cache **cache, size_t max_bytes);
void cache_close(struct cache *cache); /* no entry may be in use; NULL is fine */

/* A number that was never an owner before. */
uint64_t cache_new_owner(struct cache *cache);

/* Finds or fills; the failure of a fill is returned to the one who filled and to who waited. */
NODISCARD int cache_get(struct cache *cache, struct cache_key key, cache_fill *fill, void *ctx,
			struct cache_entry **entry);
void cache_put(struct cache *cache, struct cache_entry *entry);
void *cache_value(const struct cache_entry *entry);

/* Forgets a key. The caller makes sure that nobody is filling it with old bytes now. */
void cache_drop(struct cache *cache, struct cache_key key);

struct cache_counts {
	uint64_t hits, misses, evicted, bytes;
};
void cache_counts(struct cache *cache, struct cache_counts *out);

#endif
