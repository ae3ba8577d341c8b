/*
 * Blocks through the cache: decoded into it, unless it has them, and sent from there. It may keep
 * them packed, that is, without undoing their last filter.
 */
#include "fs/read/fetch_impl.h"

#include "fs/read/fetch_memory.h"
#include "fs/stats.h"

/* A block that takes more memory than this is kept packed: that takes less. */
#define PACKED_FROM (16u << 20)

/* Bytes of larger entries are copied, since a reply would hold the whole entry (cache.h). */
#define COPIED_FROM (1u << 20)

static int ask_for_block(struct fetch *x)
{
	struct run one = {x->block, 1};
	uint64_t bytes = fetch_head_memory(x) + frame_run_memory(fetch_loaded(x), one, x->form);

	return fetch_ask_memory(x, bytes, chunk_block_bytes(&x->lazy->chunk, x->block).len);
}

static int block_fill(void *ctx, struct cache_value *out)
{
	struct fetch *x = ctx;
	struct cache *cache = x->f->fs->cache;
	const struct chunk *c = &x->lazy->chunk;
	struct run run = {x->block, 1};

	x->filled = true;
	TRY(ask_for_block(x));
	fetch_use_memory(x);
	TRY(cache_alloc(cache, chunk_run_bytes(c, run), out));
	out->tag = x->form;
	struct span dst = span_of(out->p, out->n);
	int rc = x->form == BLOCK_PACKED
			 ? frame_read_packed(fetch_loaded(x), x->block, x->ws->scratch, dst)
			 : frame_read_blocks(fetch_loaded(x), run, x->ws->scratch, dst);
	if (rc < 0)
		cache_unalloc(cache, out);
	fetch_give_memory(x, fetch_head_memory(x)); /* the block belongs to the cache now */
	return rc;
}

/* A block that was decoded ahead counts as such once. */
void fetch_count_entry(const struct fetch *x, struct cache_entry *e)
{
	enum stats_count from = STATS_FROM_MISS;

	if (!x->filled)
		from = cache_first_use(e) ? STATS_FROM_READAHEAD : STATS_FROM_CACHE;
	stats_add(from, 1);
}

/*
 * A small random read needs a part of its block, and later reads need others. So the cache keeps
 * the block packed, and the last filter is undone only for the requested bytes.
 */
static enum block_form wanted_form(const struct fetch *x, uint32_t len)
{
	const struct chunk *c = &x->lazy->chunk;
	struct run one = {x->block, 1};
	bool packs = fetch_is_small(x, len) ||
		     (chunk_block_bytes(c, x->block).len > LARGE_FREE &&
		      frame_run_memory(fetch_loaded(x), one, BLOCK_DECODED) > PACKED_FROM);
	return packs && frame_can_pack(fetch_loaded(x)) ? BLOCK_PACKED : BLOCK_DECODED;
}

int fetch_add_entry(struct fetch *x, struct cache_entry *e, uint32_t lo, uint32_t len)
{
	if (cache_tag(e) == BLOCK_PACKED)
		return chunk_unpack(&x->lazy->chunk, x->ws->scratch, cache_bytes(e), lo,
				    reply_room(x->r, len));
	struct view bytes = view_part(cache_bytes(e), lo, len);
	if (cache_bytes(e).n > COPIED_FROM)
		memcpy(reply_room(x->r, len).p, bytes.p, len);
	else
		reply_add(x->r, e, bytes);
	return 0;
}

int fetch_cached(struct fetch *x, uint32_t lo, uint32_t len)
{
	struct cache *cache = x->f->fs->cache;
	struct cache_entry *e;

	x->filled = false;
	x->form = wanted_form(x, len);
	enum cache_touch touch = x->kind == READ_RANDOM ? CACHE_USE : CACHE_SCAN;
	TRY(cache_get(cache, (struct cache_key){x->lazy->id, x->block}, touch,
		      (struct cache_fill){block_fill, x}, &e));
	fetch_count_entry(x, e);
	if (fetch_is_small(x, len))
		fetch_note_small(x, !x->filled);
	int rc = fetch_add_entry(x, e, lo, len);
	/* The stream is done with this block. Its next block reuses the memory while it is warm. */
	if (x->kind == READ_AHEAD && lo + len == cache_bytes(e).n)
		cache_drop(cache, (struct cache_key){x->lazy->id, x->block});
	cache_put(cache, e);
	return rc;
}

int fetch_cache_ahead(struct fetch *x)
{
	struct cache_key key = {x->lazy->id, x->block};
	struct cache *cache = x->f->fs->cache;
	struct cache_entry *e;

	x->filled = false;
	TRY(cache_get(cache, key, CACHE_SCAN, (struct cache_fill){block_fill, x}, &e));
	if (x->filled)
		cache_mark_unused(e);
	cache_put(cache, e);
	return 0;
}

int fetch_ask_cached(struct fetch *x)
{
	x->form = wanted_form(x, chunk_block_bytes(&x->lazy->chunk, x->block).len);
	return ask_for_block(x);
}
