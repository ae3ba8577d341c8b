/*
 * How bytes of a stored chunk get into a reply. Its head is in the cache (struct lazy); then, from
 * block to block (read_chunk):
 *
 *   fetch_run            whole blocks of a long read: decoded into the reply, past the cache
 *   fetch_part           the first small random read of a block: no more of it than necessary
 *   fetch_cached         all others: the block is decoded into the cache, from where it is sent
 *   frame_read_within    plain copies with large blocks: piece by piece, without memory
 *
 * A read that needs more memory than a thread may take waits for it, and goes on where it was
 * (fetch_memory.h).
 */
#include "fs/read/fetch_impl.h"

#include "fs/read/fetch_memory.h"

/*
 * A request of at least this size at a chunk's start is likely to be followed by the rest of the
 * chunk.
 */
#define WHOLE_REQUEST (64u << 10)

static void lazy_release(void *p)
{
	struct lazy *l = p;
	chunk_deinit(&l->chunk);
	mem_free(l);
}

static int lazy_fill(void *ctx, struct cache_value *out)
{
	struct fetch *x = ctx;
	struct lazy *l = mem_zalloc(sizeof *l);

	if (!l)
		return -ENOMEM;
	fetch_use_memory(x);
	int rc = frame_load_chunk(x->f->frame, x->n, x->ws->scratch, &l->chunk);
	if (rc < 0) {
		if (rc == -E2BIG)
			rc = fetch_want_memory(x, scratch_wanted(x->ws->scratch),
					       l->chunk.blocksize);
		lazy_release(l);
		return rc;
	}
	l->id = cache_new_owner(x->f->fs->cache);
	*out = (struct cache_value){
		.p = l, .cost = chunk_footprint(&l->chunk) + sizeof *l, .release = lazy_release};
	return 0;
}

/* Sets x->lazy to the parsed head of a stored chunk, through the cache; *e is its entry. */
static int lazy_get(struct fetch *x, struct cache_entry **e)
{
	struct file *f = x->f;

	x->ws = workspace_get();
	if (!x->ws)
		return -ENOMEM;
	TRY(cache_get(f->fs->cache, (struct cache_key){f->cache_owner, x->n}, CACHE_USE,
		      (struct cache_fill){lazy_fill, x}, e));
	x->lazy = cache_value(*e);
	return 0;
}

static int read_block(struct fetch *x, uint32_t lo, uint32_t len)
{
	struct extent e = chunk_block_bytes(&x->lazy->chunk, x->block);

	if (e.len > LARGE_FREE && frame_can_read_within(fetch_loaded(x)))
		return frame_read_within(fetch_loaded(x), e.off + lo, reply_room(x->r, len));
	int rc = fetch_part(x, lo, len);
	return rc == CHUNK_NO_PART ? fetch_cached(x, lo, len) : rc;
}

/* The whole blocks from `first` on that end at or before byte `hi`. */
static struct run whole_blocks(const struct chunk *c, uint32_t first, uint32_t hi)
{
	uint32_t end = hi < c->nbytes ? chunk_block_at(c, hi) : c->nblocks;
	return (struct run){first, end > first ? end - first : 0};
}

/* Reads bytes [x->at, x->end) of a loaded chunk. */
static int read_chunk(struct fetch *x)
{
	const struct chunk *c = &x->lazy->chunk;

	while (x->at < x->end) {
		x->block = chunk_block_at(c, x->at);
		struct extent e = chunk_block_bytes(c, x->block);
		struct run run = {x->block, 0};
		if (x->at == e.off)
			run = fetch_run_past(x, whole_blocks(c, x->block, x->end));
		uint32_t len = run.n ? chunk_run_bytes(c, run)
				     : (uint32_t)min_u64(e.off + e.len, x->end) - x->at;
		TRY(run.n ? fetch_run(x, run) : read_block(x, x->at - e.off, len));
		x->at += len;
	}
	return 0;
}

/*
 * Mostly blocks have checksums of their own, and there is nothing to do here. If they have none, a
 * reader of the whole chunk gets no byte unless the chunk's checksum is right. The kernel splits
 * such a read into several requests that arrive at once: the one for the start of the chunk checks
 * all of it, and if it fails, the chunk does. That reads the stored bytes once more. Keeping them
 * for the other requests was a tenth slower: they fall out of the core's cache, and the other
 * requests have to wait.
 */
static int check(struct fetch *x)
{
	const struct chunk *c = &x->lazy->chunk;
	uint32_t len = x->end - x->at;
	int checked = atomic_load(&x->lazy->checked);

	/* A whole chunk that goes past the cache is checked as it is read. */
	struct run all = {0, c->nblocks};
	bool later = len == c->nbytes && fetch_run_past(x, all).n == c->nblocks;
	if (!checked && x->at == 0 && len >= WHOLE_REQUEST && !later) {
		checked = frame_check_chunk(fetch_loaded(x));
		if (checked < 0 && checked != -EBADMSG)
			return checked;
		atomic_store(&x->lazy->checked, checked < 0 ? checked : 1);
		TRY(checked);
	}
	return checked < 0 ? CORRUPT("checksum of a chunk", x->n) : 0;
}

/* Reads bytes [x->at, x->end) of chunk x->n, or what there is memory for. */
static int read_on(struct fetch *x)
{
	struct cache_entry *e;

	TRY(lazy_get(x, &e));
	uint32_t len = x->end - x->at;
	int rc = check(x);
	if (rc >= 0) {
		rc = read_chunk(x);
		/*
		 * After a failure the kernel requests single pages again. These fail, too; but not
		 * if no checksum is known, and only the blocks that do not decode are damaged.
		 */
		if (rc == -EBADMSG && len == x->lazy->chunk.nbytes &&
		    frame_check_chunk(fetch_loaded(x)) < 0)
			atomic_store(&x->lazy->checked, rc);
	}
	cache_put(x->f->fs->cache, e);
	return rc;
}

int fetch_stored(struct fetch *x, uint32_t lo, uint32_t len)
{
	x->at = lo;
	x->end = lo + len;
	return fetch_with_memory(x, read_on);
}

/* Asks for the memory to read each block of chunk x->n to its end. */
static int ask_for_blocks(struct fetch *x)
{
	struct cache_entry *e;

	TRY(lazy_get(x, &e));
	const struct chunk *c = &x->lazy->chunk;
	int rc = 0;
	for (x->block = 0; rc == 0 && x->block < c->nblocks; x->block++)
		rc = frame_can_read_within(fetch_loaded(x)) ? 0 : fetch_ask_cached(x);
	cache_put(x->f->fs->cache, e);
	return rc;
}

int fetch_check_memory(struct fetch *x)
{
	return fetch_with_memory(x, ask_for_blocks);
}

/* Decodes the blocks of a chunk that hold any of [x->at, x->end) into the cache. */
static int decode_blocks(struct fetch *x)
{
	const struct chunk *c = &x->lazy->chunk;

	for (uint32_t block = chunk_block_at(c, x->at); block < c->nblocks; block++) {
		if (chunk_block_bytes(c, block).off >= x->end)
			break;
		if (cache_has(x->f->fs->cache, (struct cache_key){x->lazy->id, block}))
			continue;
		x->block = block;
		TRY(fetch_cache_ahead(x));
	}
	return 0;
}

int fetch_ahead(struct fetch *x, uint32_t lo, uint32_t hi)
{
	struct cache_entry *e;

	x->at = lo;
	x->end = hi;
	TRY(lazy_get(x, &e));
	/* A chunk that is read ahead from its start on is verified first. */
	int rc = check(x);
	if (rc >= 0 && !fetch_is_tiny(&x->lazy->chunk))
		rc = decode_blocks(x);
	cache_put(x->f->fs->cache, e);
	return rc;
}
