/* Whole blocks of a long read: decoded into the reply, past the cache. */
#include "fs/read/fetch_impl.h"

#include "fs/read/fetch_memory.h"
#include "fs/stats.h"

/*
 * Runs of whole blocks of at least this size are decoded into the reply, not into the cache: the
 * kernel keeps the pages, so the cache would not be asked for them again.
 */
#define DIRECT_MIN (32 << 10)

/* Blocks shorter than this, on average, are read many at a time. */
#define TINY 512u

bool fetch_is_tiny(const struct chunk *c)
{
	return c->nblocks > 1 && c->nbytes / c->nblocks < TINY;
}

/*
 * True: the run is decoded into the reply, past the cache. The kernel keeps what it gets, except
 * with direct I/O, and what a stream has read is not read again. If the workers decode ahead, the
 * blocks are in the cache, or will be in a moment.
 */
static bool goes_past(const struct fetch *x, struct run run)
{
	const struct chunk *c = &x->lazy->chunk;

	if (fetch_is_tiny(c))
		return true;
	if (x->kind == READ_AHEAD || x->kind == READ_STRIDES)
		return false;
	if (x->direct && x->kind == READ_RANDOM)
		return false;
	return chunk_run_bytes(c, run) >= DIRECT_MIN || run.n == c->nblocks;
}

/*
 * Blocks that the cache already has are taken from there; those between two of them are one read of
 * the file.
 */
int fetch_run(struct fetch *x, struct run run)
{
	const struct chunk *c = &x->lazy->chunk;
	struct cache *cache = x->f->fs->cache;
	uint32_t end = run.first + run.n, ahead;

	for (; run.first < end; run.first = ahead) {
		struct cache_entry *e = NULL;
		for (ahead = run.first; ahead < end && !e; ahead += !e)
			e = cache_find(cache, (struct cache_key){x->lazy->id, ahead});
		run.n = ahead - run.first;
		int rc = 0;
		if (run.n) {
			stats_add(STATS_FROM_MISS, run.n);
			rc = frame_read_blocks(fetch_loaded(x), run, x->ws->scratch,
					       reply_room(x->r, chunk_run_bytes(c, run)));
		}
		if (e) {
			x->filled = false;
			fetch_count_entry(x, e);
			if (rc >= 0)
				rc = fetch_add_entry(x, e, 0, (uint32_t)cache_bytes(e).n);
			cache_put(cache, e);
			ahead++;
		}
		TRY(rc);
	}
	return 0;
}

/* True: the run takes no more memory than any thread may take. Looks at each of its blocks. */
static bool fits(const struct fetch *x, struct run run)
{
	uint64_t bytes = chunk_run_bytes(&x->lazy->chunk, run);
	return !fetch_head_memory(x) &&
	       frame_run_memory(fetch_loaded(x), run, BLOCK_DECODED) - bytes <= LARGE_FREE;
}

/*
 * Found by doubling, starting with one block: blocks may be stored in such an order that no two
 * fit, and starting with the whole run would mean to look at all of it again for each block.
 */
struct run fetch_run_past(const struct fetch *x, struct run run)
{
	struct run none = {run.first, 0}, past = none, try = {run.first, 1};

	if (!goes_past(x, run))
		return none;
	for (; past.n < run.n && fits(x, try); try.n = (uint32_t)min_u64(2ull * try.n, run.n))
		past = try;
	return goes_past(x, past) ? past : none;
}
