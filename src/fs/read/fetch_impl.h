/*
 * What the files of a read in progress need of each other: fetch.c has the head of a chunk, and
 * goes through its blocks. Each of the others is a way to get some of these.
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

/* Adds bytes [lo, lo + len) of block x->block to the reply, by way of the cache. */
NODISCARD int fetch_cached(struct fetch *x, uint32_t lo, uint32_t len);

/* Decodes block x->block into the cache, for a read to come. */
NODISCARD int fetch_cache_ahead(struct fetch *x);

/* As if block x->block was about to be read to its end: -E2BIG as of fetch_ask_memory. */
NODISCARD int fetch_ask_cached(struct fetch *x);

/* Of the cache's entry of a block: counts it as an answer; adds bytes [lo, lo + len) of it. */
void fetch_count_entry(const struct fetch *x, struct cache_entry *e);
NODISCARD int fetch_add_entry(struct fetch *x, struct cache_entry *e, uint32_t lo, uint32_t len);

/*
 * fetch_cached without the cache, if the read is small and the first one of its block, which is
 * decoded no further than it must. CHUNK_NO_PART: the read has to go through the cache.
 */
NODISCARD int fetch_part(struct fetch *x, uint32_t lo, uint32_t len);

/*
 * True: a random read of a small part of block x->block. Not by direct I/O: the kernel keeps
 * nothing of that, so the same bytes will be asked for again.
 */
bool fetch_is_small(const struct fetch *x, uint32_t len);

/* Notes a small read of x->block, and what the kernel should have of the file because of it. */
void fetch_note_small(const struct fetch *x, bool cached);

/* The first blocks of the run, as many as fetch_run takes at a time, perhaps none. */
struct run fetch_run_past(const struct fetch *x, struct run run);

/* Adds whole blocks to the reply, past the cache. */
NODISCARD int fetch_run(struct fetch *x, struct run run);

/* Blocks so short that an entry of the cache for each would cost more than the blocks. */
bool fetch_is_tiny(const struct chunk *c);

#endif
