/*
 * How bytes of a stored chunk get into a reply. Its head is in the cache (struct lazy); then, from
 * block to block (read_chunk):
 *
 *   read_run             whole blocks of a long read: decoded into the reply, past the cache
 *   read_part            the first small random read of a block: no more of it than it must
 *   read_cached          all others: the block is decoded into the cache, from where it is sent
 *   frame_read_within    of plain copies with large blocks: piece by piece, without memory
 *
 * A read that needs more memory than a thread may take (large.h) ends with -E2BIG. Then it releases
 * all that it holds of the cache, waits for the memory (fetch_memory.h), and goes on where it was.
 */
#include "fs/file/fetch.h"

#include "fs/file/fetch_memory.h"
#include "fs/stats.h"

/*
 * Runs of whole blocks from this size on are decoded into the reply, not into the cache: the kernel
 * keeps the pages, so that nobody would ask the cache for them.
 */
#define DIRECT_MIN (32 << 10)

/*
 * A request from this size on at a chunk's start is likely to be followed by the rest of the chunk.
 */
#define WHOLE_REQUEST (64u << 10)

/*
 * A read of at most this share of a block undoes the last filter for its own bytes only. Whoever
 * reads more of a block will soon have read all of it.
 */
#define PACKED_SHARE 4

/* A block that takes more memory than this is kept packed: that takes less. */
#define PACKED_FROM (16u << 20)

/* Entries from this size on are not kept for the time of a reply (cache.h). */
#define COPIED_FROM (1u << 20)

/* Blocks shorter than this, on average, are read many at a time. */
#define TINY 512u

/* A part of a block that ends in its last quarter takes about as long as all of it. */
#define PART_QUARTERS 3

/*
 * Small random reads of a file are dense when they are more than this part of its blocks: as many
 * may be yet to come, anywhere in it. Then the kernel gets the AROUND bytes in which each of them
 * lies (ops/push.h). Not of files that are longer than so many caches: the kernel might not keep
 * all of that, or give up things of more use.
 */
#define DENSE_SHARE 2
#define DENSE_CACHES 4
#define AROUND REPLY_PUSH_MAX

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
		if (rc == -E2BIG) {
			x->want = scratch_wanted(x->ws->scratch);
			x->large_block = l->chunk.blocksize;
		}
		lazy_release(l);
		return rc;
	}
	l->id = cache_new_owner(x->f->fs->cache);
	*out = (struct cache_value){
		.p = l, .cost = chunk_footprint(&l->chunk) + sizeof *l, .release = lazy_release};
	return 0;
}

static struct frame_chunk loaded(const struct fetch *x)
{
	return (struct frame_chunk){x->f->frame, x->n, &x->lazy->chunk};
}

/*
 * The memory of the head, if it is much. It counts as ours although it is in the cache, which may
 * evict it while it is in use here.
 */
static uint64_t large_head(const struct fetch *x)
{
	size_t n = chunk_footprint(&x->lazy->chunk);
	return n > LARGE_FREE ? n : 0;
}

static int ask_for_block(struct fetch *x)
{
	const struct chunk *c = &x->lazy->chunk;
	struct run one = {x->block, 1};

	x->large_block = chunk_block_bytes(c, x->block).len;
	return fetch_ask_memory(x, large_head(x) + frame_run_memory(loaded(x), one, x->form));
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
			 ? frame_read_packed(loaded(x), x->block, x->ws->scratch, dst)
			 : frame_read_blocks(loaded(x), run, x->ws->scratch, dst);
	if (rc < 0)
		cache_unalloc(cache, out);
	fetch_give_memory(x, large_head(x)); /* the block is the cache's from here on */
	return rc;
}

/* Counts where the bytes came from. A block that was decoded ahead counts as such once. */
static void count_answer(const struct fetch *x, struct cache_entry *e)
{
	enum stats_count from = STATS_FROM_MISS;

	if (!x->filled)
		from = cache_first_use(e) ? STATS_FROM_READAHEAD : STATS_FROM_CACHE;
	stats_add(from, 1);
}

/*
 * True: a random read of a small part of the block. Not by direct I/O: the kernel keeps nothing of
 * that, so the same bytes will be asked for again.
 */
static bool is_small(const struct fetch *x, uint32_t len)
{
	return x->kind == READ_RANDOM && !x->direct && !x->f->npy &&
	       len <= chunk_block_bytes(&x->lazy->chunk, x->block).len / PACKED_SHARE;
}

/*
 * A small random read needs a part of its block, and the reads that follow it others. So the cache
 * keeps the block before its last filter is undone, and that is done for the bytes asked for.
 */
static enum block_form wanted_form(const struct fetch *x, uint32_t len)
{
	const struct chunk *c = &x->lazy->chunk;
	struct run one = {x->block, 1};
	bool packs = is_small(x, len) ||
		     (chunk_block_bytes(c, x->block).len > LARGE_FREE &&
		      frame_run_memory(loaded(x), one, BLOCK_DECODED) > PACKED_FROM);
	return packs && frame_can_pack(loaded(x)) ? BLOCK_PACKED : BLOCK_DECODED;
}

/* Bytes [lo, lo + len) of one entry's block. */
static int answer(struct fetch *x, struct cache_entry *e, uint32_t lo, uint32_t len)
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

/* True: a small read of a block that was not wanted lately, and not of its last quarter. */
static bool wants_part(const struct fetch *x, uint32_t lo, uint32_t len)
{
	const struct chunk *c = &x->lazy->chunk;
	struct fs *fs = x->f->fs;
	struct cache_key key = {x->lazy->id, x->block};
	uint32_t whole = chunk_block_bytes(c, x->block).len;

	return is_small(x, len) && whole <= LARGE_FREE / 4 &&
	       lo + len <= whole / 4 * PART_QUARTERS &&
	       chunk_has_parts(c, x->ws->scratch) &&
	       glimpse_is_enough(&fs->glimpses, key.owner, x->block, cache_has(fs->cache, key));
}

/* Counts a small random read of a file of `size` bytes. True: they are dense. */
static bool is_dense(struct file *f, uint64_t size, uint32_t block)
{
	uint64_t reads = 1 + atomic_fetch_add_explicit(&f->small_reads, 1, memory_order_relaxed);

	return size / DENSE_CACHES <= f->fs->opt.cache && reads > size / block / DENSE_SHARE;
}

/* Notes a small read of a block, and what the kernel should have of the file because of it. */
static void note_small(const struct fetch *x, bool cached)
{
	struct file *f = x->f;
	struct extent block = chunk_block_bytes(&x->lazy->chunk, x->block);
	uint64_t at = frame_chunk_span(f->frame, x->n).start + block.off;
	uint64_t around = at - at % AROUND, size = file_size_locked(f);
	bool back = glimpse_came_back(&f->fs->glimpses, cached);

	if (is_dense(f, size, block.len) && block.len < AROUND)
		x->r->push = (struct reply_push){around, min_u64(AROUND, size - around)};
	else if (back)
		x->r->push = (struct reply_push){at, block.len};
}

/*
 * The first read of a block may decode no more of it than it must: most blocks of cold files get
 * no second one. CHUNK_NO_PART: the read has to go through the cache.
 */
static int read_part(struct fetch *x, uint32_t lo, uint32_t len)
{
	if (!wants_part(x, lo, len))
		return CHUNK_NO_PART;
	int rc = frame_read_part(loaded(x), (struct chunk_part){x->block, lo}, x->ws->scratch,
				 reply_next(x->r, len));
	if (rc == 0) {
		(void)reply_room(x->r, len);
		stats_add(STATS_FROM_MISS, 1);
		note_small(x, false);
	}
	return rc;
}

/* Bytes [lo, lo + len) of one block, by way of the cache. */
static int read_cached(struct fetch *x, uint32_t lo, uint32_t len)
{
	struct cache *cache = x->f->fs->cache;
	struct cache_entry *e;

	x->filled = false;
	x->form = wanted_form(x, len);
	enum cache_touch touch = x->kind == READ_RANDOM ? CACHE_USE : CACHE_SCAN;
	TRY(cache_get(cache, (struct cache_key){x->lazy->id, x->block}, touch,
		      (struct cache_fill){block_fill, x}, &e));
	count_answer(x, e);
	if (is_small(x, len))
		note_small(x, !x->filled);
	int rc = answer(x, e, lo, len);
	/* The stream is done with this block. Its next one gets the memory while that is warm. */
	if (x->kind == READ_AHEAD && lo + len == cache_bytes(e).n)
		cache_drop(cache, (struct cache_key){x->lazy->id, x->block});
	cache_put(cache, e);
	return rc;
}

static int read_block(struct fetch *x, uint32_t lo, uint32_t len)
{
	struct extent e = chunk_block_bytes(&x->lazy->chunk, x->block);

	if (e.len > LARGE_FREE && frame_can_read_within(loaded(x)))
		return frame_read_within(loaded(x), e.off + lo, reply_room(x->r, len));
	int rc = read_part(x, lo, len);
	return rc == CHUNK_NO_PART ? read_cached(x, lo, len) : rc;
}

/* How many whole blocks from `first` on lie in front of byte `hi`. */
static struct run whole_blocks(const struct chunk *c, uint32_t first, uint32_t hi)
{
	uint32_t end = hi < c->nbytes ? chunk_block_at(c, hi) : c->nblocks;
	return (struct run){first, end > first ? end - first : 0};
}

/* Blocks so short that an entry of the cache for each would cost more than the blocks. */
static bool is_tiny(const struct chunk *c)
{
	return c->nblocks > 1 && c->nbytes / c->nblocks < TINY;
}

/*
 * True: the run is decoded into the reply, past the cache. The kernel keeps what it gets, except
 * for direct I/O, and what a stream has read is not read again. Where the workers decode ahead the
 * blocks are in the cache, or will be in a moment.
 */
static bool goes_past(const struct fetch *x, struct run run)
{
	const struct chunk *c = &x->lazy->chunk;

	if (is_tiny(c))
		return true;
	if (x->kind == READ_AHEAD || x->kind == READ_STRIDES)
		return false;
	if (x->direct && x->kind == READ_RANDOM)
		return false;
	return chunk_run_bytes(c, run) >= DIRECT_MIN || run.n == c->nblocks;
}

/*
 * Whole blocks that go past the cache, except for those that it already has: what lies between two
 * of those is one read of the file.
 */
static int read_run(struct fetch *x, struct run run)
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
			rc = frame_read_blocks(loaded(x), run, x->ws->scratch,
					       reply_room(x->r, chunk_run_bytes(c, run)));
		}
		if (e) {
			x->filled = false;
			count_answer(x, e);
			if (rc >= 0)
				rc = answer(x, e, 0, (uint32_t)cache_bytes(e).n);
			cache_put(cache, e);
			ahead++;
		}
		TRY(rc);
	}
	return 0;
}

/* True: it takes no more memory than any thread may take. Looks at each block of the run. */
static bool fits(const struct fetch *x, struct run run)
{
	uint64_t bytes = chunk_run_bytes(&x->lazy->chunk, run);
	return !large_head(x) &&
	       frame_run_memory(loaded(x), run, BLOCK_DECODED) - bytes <= LARGE_FREE;
}

/*
 * The first blocks of the run, as many as are decoded into the reply at a time, perhaps none. Found
 * by doubling, from one block on: blocks may lie in such an order that no two fit, and to begin
 * with all of the run would look at all of it again for each block.
 */
static struct run run_past(const struct fetch *x, struct run run)
{
	struct run none = {run.first, 0}, past = none, try = {run.first, 1};

	if (!goes_past(x, run))
		return none;
	for (; past.n < run.n && fits(x, try); try.n = (uint32_t)min_u64(2ull * try.n, run.n))
		past = try;
	return goes_past(x, past) ? past : none;
}

/* Bytes [*at, hi) of a loaded chunk. *at goes along, so that -E2BIG can be followed by the rest. */
static int read_chunk(struct fetch *x, uint32_t *at, uint32_t hi)
{
	const struct chunk *c = &x->lazy->chunk;

	for (uint32_t lo = *at; lo < hi; lo = *at) {
		uint32_t block = chunk_block_at(c, lo);
		struct extent e = chunk_block_bytes(c, block);
		struct run run = lo == e.off ? run_past(x, whole_blocks(c, block, hi))
					     : (struct run){block, 0};
		uint32_t len = run.n ? chunk_run_bytes(c, run) : 0;
		if (run.n) {
			TRY(read_run(x, run));
		} else {
			len = (uint32_t)min_u64(e.off + e.len, hi) - lo;
			x->block = block;
			TRY(read_block(x, lo - e.off, len));
		}
		*at += len;
	}
	return 0;
}

/*
 * Blocks mostly have checksums of their own, and nothing is left to do here. Of a chunk without,
 * a reader of all of it gets no byte unless the chunk's checksum is right. The kernel splits
 * such a read into several requests that arrive at once; the one for the start of the chunk checks
 * all of it, and its failure is that of the chunk. It reads the stored bytes once more. Keeping
 * them for the other requests was a tenth slower: they fall out of the core's cache, and the others
 * wait.
 */
static int check(struct fetch *x, uint32_t lo, uint32_t len)
{
	const struct chunk *c = &x->lazy->chunk;
	int checked = atomic_load(&x->lazy->checked);

	/* A whole chunk that goes past the cache is checked as it is read. */
	struct run all = {0, c->nblocks};
	bool later = len == c->nbytes && run_past(x, all).n == c->nblocks;
	if (!checked && lo == 0 && len >= WHOLE_REQUEST && !later) {
		checked = frame_check_chunk(loaded(x));
		if (checked < 0 && checked != -EBADMSG)
			return checked;
		atomic_store(&x->lazy->checked, checked < 0 ? checked : 1);
		TRY(checked);
	}
	return checked < 0 ? CORRUPT("checksum of a chunk", x->n) : 0;
}

/* The parsed head of a stored chunk, from the cache. */
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

/* Bytes [*at, hi) of chunk x->n. -E2BIG: there is more to read, and no memory for it yet. */
static int read_on(struct fetch *x, uint32_t *at, uint32_t hi)
{
	struct cache_entry *e;

	TRY(lazy_get(x, &e));
	uint32_t len = hi - *at;
	int rc = check(x, *at, len);
	if (rc >= 0) {
		rc = read_chunk(x, at, hi);
		/*
		 * The kernel asks again for single pages of what failed: these fail, too, but not
		 * where no checksum is known, and only the blocks that do not decode are damaged.
		 */
		if (rc == -EBADMSG && len == x->lazy->chunk.nbytes &&
		    frame_check_chunk(loaded(x)) < 0)
			atomic_store(&x->lazy->checked, rc);
	}
	cache_put(x->f->fs->cache, e);
	return rc;
}

int fetch_stored(struct fetch *x, uint32_t lo, uint32_t len)
{
	uint32_t at = lo;
	int rc = read_on(x, &at, lo + len);

	while (rc == -E2BIG) {
		TRY(fetch_take_memory(x));
		rc = read_on(x, &at, lo + len);
	}
	fetch_give_memory(x, 0);
	return rc;
}

/* As if each block of chunk x->n was about to be read, to its end. */
static int ask_for_blocks(struct fetch *x)
{
	struct cache_entry *e;

	TRY(lazy_get(x, &e));
	const struct chunk *c = &x->lazy->chunk;
	int rc = 0;
	for (x->block = 0; rc == 0 && x->block < c->nblocks; x->block++) {
		x->form = wanted_form(x, chunk_block_bytes(c, x->block).len);
		rc = frame_can_read_within(loaded(x)) ? 0 : ask_for_block(x);
	}
	cache_put(x->f->fs->cache, e);
	return rc;
}

int fetch_check_memory(struct fetch *x)
{
	int rc = ask_for_blocks(x);

	while (rc == -E2BIG) {
		TRY(fetch_take_memory(x));
		rc = ask_for_blocks(x);
	}
	fetch_give_memory(x, 0);
	return rc;
}

/* Decodes the blocks of a chunk that hold any of [lo, hi) into the cache. */
static int decode_blocks(struct fetch *x, uint32_t lo, uint32_t hi)
{
	const struct chunk *c = &x->lazy->chunk;
	struct cache *cache = x->f->fs->cache;
	struct cache_entry *e;

	for (uint32_t block = chunk_block_at(c, lo); block < c->nblocks; block++) {
		struct cache_key key = {x->lazy->id, block};
		if (chunk_block_bytes(c, block).off >= hi)
			break;
		if (cache_has(cache, key))
			continue;
		x->block = block;
		x->filled = false;
		TRY(cache_get(cache, key, CACHE_SCAN, (struct cache_fill){block_fill, x}, &e));
		if (x->filled)
			cache_mark_unused(e);
		cache_put(cache, e);
	}
	return 0;
}

int fetch_ahead(struct fetch *x, uint32_t lo, uint32_t hi)
{
	struct cache_entry *e;

	TRY(lazy_get(x, &e));
	/* A chunk that is read ahead from its start on is verified first. */
	int rc = check(x, lo, hi - lo);
	if (rc >= 0 && !is_tiny(&x->lazy->chunk))
		rc = decode_blocks(x, lo, hi);
	cache_put(x->f->fs->cache, e);
	return rc;
}
