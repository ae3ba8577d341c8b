/*
 * A shard of the cache: a hash table of entries, and the SIEVE queue of the filled ones (cache.h
 * says why SIEVE). For cache.c alone, which holds the shard's lock around every call here, counts
 * references, and frees entries.
 */
#ifndef FRAME_CACHE_SHARD_H
#define FRAME_CACHE_SHARD_H

#include "frame/cache.h"

#include <pthread.h>
#include <stdatomic.h>

struct cache_entry {
	struct cache_key key;
	struct cache_entry *next; /* in its bucket; under the shard's lock, like all down to `rc` */
	struct cache_entry *newer, *older; /* in the shard's queue */
	bool found;                        /* it is in the table, where others find it */
	bool filled;                       /* the fill has ended, successfully if `rc` is 0 */
	bool queued; /* it is in the queue, or was until it left the table; its cost is counted */
	bool visited;                      /* used since the hand last passed */
	int rc;                            /* result of the fill, for the waiters */
	atomic_bool unused;                /* it was filled ahead, and not used yet */
	atomic_uint refs;                  /* users, plus one while it is in the table */
	union {                            /* fixed once filled */
		struct cache_value value;
		struct err_note why;       /* rc < 0: the cause, for the waiters */
	};
};

struct shard {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct cache_entry **bucket; /* all below under lock */
	size_t nbuckets, n;          /* nbuckets: a power of two; n: entries in the table */
	struct cache_entry *newest, *oldest, *hand; /* of the queue */
	uint64_t hits, misses, evicted;
} __attribute__((aligned(64)));

NODISCARD int shard_init(struct shard *s);
void shard_deinit(struct shard *s); /* no entry may be in it; also after a failed shard_init */

uint64_t shard_hash(const struct cache_key *key);

/* The entry with that key, or NULL. `hash`, here and below: that of the key. */
struct cache_entry *shard_find(const struct shard *s, uint64_t hash, const struct cache_key *key);

/* Adds an entry to the table, which must not have its key. */
void shard_add(struct shard *s, uint64_t hash, struct cache_entry *e);

/* Adds a filled entry to the queue. */
void shard_queue(struct shard *s, struct cache_entry *e);

/* Removes an entry from the table, and from the queue if it is in it. */
void shard_remove(struct shard *s, struct cache_entry *e);

/* The entry that SIEVE evicts next; NULL: the queue is empty. Advances the hand. */
struct cache_entry *shard_victim(struct shard *s);

#endif
