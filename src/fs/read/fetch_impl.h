/*
 * Shared by the files of a read in progress: fetch.c gets the head of a chunk and goes through its
 * blocks; each of the others is a way to read some of these.
 */
#ifndef FS_READ_FETCH_IMPL_H
#define FS_READ_FETCH_IMPL_H

#include "fs/read/fetch.h"

/*
 * A chunk whose head has been read, but none of its blocks yet ("lazy chunk", as the reference
 * calls it); an entry of the cache. Its blocks are cached under `id`: a chunk that is replaced gets
 * a new one, so that the old blocks cannot be found any more.
 */
struct lazy {
	struct chunk chunk;
	uint64_t id;
	atomic_int checked; /* 1: the checksum is right; < 0: it is not; 0: not known */
};

/* In all that follows, the chunk is loaded: x->lazy. */
static inline struct frame_chunk fetch_loaded(const struct fetch *x)
{
	return (struct frame_chunk){x->f->frame, x->n, &x->lazy->chunk};
}

/* Adds bytes [lo, lo + len) of block x->block to the reply, through the cache. */
NODISCARD int fetch_cached(struct fetch *x, uint32_t lo, uint32_t len);

/* Decodes block x->block into the cache, for a read to come. */
NODISCARD int fetch_cache_ahead(struct fetch *x);

/* fetch_ask_memory, for reading block x->block to its end through the cache. */
NODISCARD int fetch_ask_cached(struct fetch *x);

/*
 * For the cache entry of a block: fetch_count_entry counts where the answer comes from;
 * fetch_add_entry adds its bytes [lo, lo + len) to the reply.
 */
void fetch_count_entry(const struct fetch *x, struct cache_entry *e);
NODISCARD int fetch_add_entry(struct fetch *x, struct cache_entry *e, uint32_t lo, uint32_t len);

/*
 * fetch_cached without the cache, for a small read that is the first one of its block: decodes that
 * no further than necessary. CHUNK_NO_PART: the read has to go through the cache.
 */
NODISCARD int fetch_part(struct fetch *x, uint32_t lo, uint32_t len);

/*
 * True: a random read of a small part of block x->block. Not with direct I/O: the kernel keeps
 * nothing of that, so the same bytes will be requested again.
 */
bool fetch_is_small(const struct fetch *x, uint32_t len);

/*
 * Notes a small read of x->block, and sets what to push to the kernel because of it (struct reply).
 * `cached`: the block was in the cache.
 */
void fetch_note_small(const struct fetch *x, bool cached);

/* The first blocks of the run, as many as fetch_run takes at a time, perhaps none. */
struct run fetch_run_past(const struct fetch *x, struct run run);

/* Adds whole blocks to the reply, past the cache. */
NODISCARD int fetch_run(struct fetch *x, struct run run);

/* True: blocks are so short that a cache entry for each would cost more than the blocks. */
bool fetch_is_tiny(const struct chunk *c);

#endif
