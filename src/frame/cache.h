/*
 * A cache, bounded in bytes, of decoded blocks and parsed chunk heads.
 *
 * It is sharded by key. A shard is a hash table and a SIEVE queue (Zhang et al., NSDI 2024): one
 * visited bit per entry, and a hand that moves from old to new and evicts whatever was not used
 * since it last passed. So a scan does not displace the working set, and a hit writes one bit.
 * S3-FIFO does about as well on blocks, but needs two queues and ghost entries. SIEVE has one
 * weakness: a block that one scan touches several times looks used. So callers say which touches
 * belong to a scan, and those do not count.
 *
 * Single flight: if several threads ask for a missing key, one of them fills it and the others
 * wait. An entry can be found only once it is filled; a failed fill leaves nothing behind.
 *
 * Threads: all functions may be called from any thread. No shard lock is held during a fill, so a
 * fill may itself call cache_get.
 */
#ifndef FRAME_CACHE_H
#define FRAME_CACHE_H

#include "base/bytes.h"
#include "base/err.h"

struct cache;

struct cache_key {
	uint64_t owner; /* whose entry it is; never reused (see cache_new_owner) */
	uint64_t item;
};

/*
 * What a fill produces: bytes from cache_alloc, or anything else, with its `cost` in bytes, and a
 * `release` function that is called once, after the last user has gone.
 */
struct cache_value {
	void *p;
	size_t n;
	size_t cost;
	unsigned tag; /* the kind of value: its meaning is up to the users of the cache */
	void (*release)(void *p);
};

/* An entry in use. The value stays valid until cache_put, even when evicted or dropped. */
struct cache_entry;

/* How a missing entry is made. */
struct cache_fill {
	int (*make)(void *ctx, struct cache_value *out);
	void *ctx;
};

NODISCARD int cache_open(struct cache **cache, size_t max_bytes);
void cache_close(struct cache *cache); /* no entry may be in use; NULL is fine */

size_t cache_max(const struct cache *cache);

/*
 * Reserves `bytes` of the limit for other uses, replacing any earlier reservation; it may exceed
 * the limit. On return, entries have been evicted to make room, and their memory returned to the
 * system.
 */
void cache_lend(struct cache *cache, size_t bytes);

/* A new owner number, never handed out before. */
uint64_t cache_new_owner(struct cache *cache);

/*
 * For a fill: allocates n > 0 bytes that the entry will own, at out->p. If the fill fails later, it
 * has to free them with cache_unalloc. -ENOMEM.
 */
NODISCARD int cache_alloc(struct cache *cache, size_t n, struct cache_value *out);
void cache_unalloc(struct cache *cache, struct cache_value *v);

/*
 * Prepares memory for the next entries, on a thread that can spare the time: see slab_warm in
 * slab.h.
 */
bool cache_wants_warm(struct cache *cache);
void cache_warm(struct cache *cache);

/* CACHE_USE: a touch that is likely to be repeated. CACHE_SCAN: one that is part of a scan. */
enum cache_touch { CACHE_USE, CACHE_SCAN };

/*
 * Finds or fills an entry, and holds a reference to it until cache_put. If the fill fails, its
 * error goes to the thread that filled and to all that waited.
 */
NODISCARD int cache_get(struct cache *cache, struct cache_key key, enum cache_touch touch,
			struct cache_fill fill, struct cache_entry **entry);

/*
 * The entry if it is there and filled, held until cache_put; else NULL. Does not count as a touch.
 */
struct cache_entry *cache_find(struct cache *cache, struct cache_key key);

/* True: it is there, or somebody is filling it. */
bool cache_has(struct cache *cache, struct cache_key key);

void cache_put(struct cache *cache, struct cache_entry *entry);

/* Takes another reference to an entry that the caller holds. */
void cache_hold(struct cache_entry *entry);

/*
 * For entries filled ahead of use: the filler marks them, and cache_first_use is true once, for the
 * first user.
 */
void cache_mark_unused(struct cache_entry *entry);
bool cache_first_use(struct cache_entry *entry);

void *cache_value(const struct cache_entry *entry);
unsigned cache_tag(const struct cache_entry *entry);
struct view cache_bytes(const struct cache_entry *entry);

/* Removes a key. The caller makes sure that no fill with outdated bytes is in progress. */
void cache_drop(struct cache *cache, struct cache_key key);

struct cache_counts {
	uint64_t hits, misses, evicted;
	uint64_t bytes; /* what counts towards the limit */
};
void cache_counts(struct cache *cache, struct cache_counts *out);

#endif
