/* The reading half of file.h. */
#include "fs/dirty/workspace.h"
#include "fs/file/file.h"
#include "fs/file/share.h"
#include "fs/stats.h"
#include "fs/view_npy.h"

#include <stddef.h>
#include <unistd.h>

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

/* A part of a block that ends in its last quarter takes about as long as all of it. */
#define PART_QUARTERS 3

/* Tags of blocks in the cache: decoded, or packed (chunk_decode_packed). */
enum block_form { BLOCK_PLAIN, BLOCK_PACKED };

/*
 * A chunk whose head has been read; an entry of the cache. Its blocks are cached under `id`: a
 * chunk that is replaced gets a new one, so that the old blocks cannot be found any more.
 */
struct lazy {
	struct chunk chunk;
	uint64_t id;
	atomic_int checked; /* 1: the checksum is right; < 0: it is not; 0: not known */
};

/* A read on its way: what it needs, and where it is. */
struct fetch {
	struct file *f;
	struct workspace *ws;
	struct reply *r;     /* what has been read so far */
	uint32_t n;          /* the chunk ... */
	struct lazy *lazy;   /* ... and its head, once it is stored and loaded */
	uint32_t block;      /* the block that block_fill would decode ... */
	enum block_form form; /* ... and how */
	bool filled;         /* block_fill was called: the block was not in the cache */
	enum readahead_kind kind;
	bool direct;         /* direct I/O */
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
	int rc = frame_load_chunk(x->f->frame, x->n, x->ws->scratch, &l->chunk);
	if (rc < 0) {
		lazy_release(l);
		return rc;
	}
	l->id = cache_new_owner(x->f->fs->cache);
	*out = (struct cache_value){
		.p = l, .cost = chunk_footprint(&l->chunk) + sizeof *l, .release = lazy_release};
	return 0;
}

static int block_fill(void *ctx, struct cache_value *out)
{
	struct fetch *x = ctx;
	struct cache *cache = x->f->fs->cache;
	const struct chunk *c = &x->lazy->chunk;
	struct run run = {x->block, 1};

	x->filled = true;
	TRY(cache_alloc(cache, chunk_run_bytes(c, run), out));
	out->tag = x->form;
	struct span dst = span_of(out->p, out->n);
	int rc = x->form == BLOCK_PACKED
			 ? frame_read_packed(x->f->frame, x->n, c, x->block, x->ws->scratch, dst)
			 : frame_read_blocks(x->f->frame, x->n, c, run, x->ws->scratch, dst);
	if (rc < 0)
		cache_unalloc(cache, out);
	return rc;
}

/* Where the bytes came from. A block that was decoded ahead counts as such once. */
static void count_answer(const struct fetch *x, struct cache_entry *e)
{
	stats_add(x->filled		  ? STATS_FROM_MISS
		  : cache_first_use(e) ? STATS_FROM_READAHEAD
				       : STATS_FROM_CACHE, 1);
}

/* Direct I/O asks for the same bytes again. */
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
	return is_small(x, len) && frame_can_read_packed(&x->lazy->chunk) ? BLOCK_PACKED
									  : BLOCK_PLAIN;
}

/* Bytes [lo, lo + len) of one entry's block. */
static int answer(struct fetch *x, struct cache_entry *e, uint32_t lo, uint32_t len)
{
	if (cache_tag(e) == BLOCK_PACKED)
		return chunk_unpack(&x->lazy->chunk, x->ws->scratch, cache_bytes(e), lo,
				    reply_room(x->r, len));
	reply_add(x->r, x->f->fs->cache, e, view_part(cache_bytes(e), lo, len));
	return 0;
}

/* A small read of a block that was not wanted lately, and not of its last quarter. */
static bool wants_part(const struct fetch *x, uint32_t lo, uint32_t len)
{
	const struct chunk *c = &x->lazy->chunk;
	struct fs *fs = x->f->fs;
	struct cache_key key = {x->lazy->id, x->block};
	uint32_t whole = chunk_block_bytes(c, x->block).len;

	return is_small(x, len) && lo + len <= whole / 4 * PART_QUARTERS &&
	       chunk_has_parts(c, x->ws->scratch) &&
	       glimpse(&fs->glimpses, key.owner, x->block, cache_has(fs->cache, key));
}

/*
 * The first read of a block may decode no more of it than it must: most blocks of cold files get
 * no second one. 1: it goes by way of the cache.
 */
static int read_part(struct fetch *x, uint32_t lo, uint32_t len)
{
	const struct chunk *c = &x->lazy->chunk;

	if (!wants_part(x, lo, len))
		return 1;
	int rc = frame_read_part(x->f->frame, x->n, c, (struct chunk_part){x->block, lo},
				 x->ws->scratch, reply_next(x->r, len));
	if (rc == 0) {
		(void)reply_room(x->r, len);
		stats_add(STATS_FROM_MISS, 1);
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
	TRY(cache_get(cache, (struct cache_key){x->lazy->id, x->block}, touch, block_fill, x, &e));
	count_answer(x, e);
	int rc = answer(x, e, lo, len);
	/* A stream is done with this block: the next one gets its memory, while it is warm. */
	if (x->kind == READ_AHEAD && lo + len == cache_bytes(e).n)
		cache_drop(cache, (struct cache_key){x->lazy->id, x->block});
	cache_put(cache, e);
	return rc;
}

static int read_block(struct fetch *x, uint32_t lo, uint32_t len)
{
	int rc = read_part(x, lo, len);
	return rc > 0 ? read_cached(x, lo, len) : rc;
}

/* How many whole blocks from `first` on lie in front of byte `hi`. */
static struct run whole_blocks(const struct chunk *c, uint32_t first, uint32_t hi)
{
	struct run run = {first, 0};

	while (first + run.n < c->nblocks) {
		struct extent e = chunk_block_bytes(c, first + run.n);
		if (e.off + e.len > hi)
			break;
		run.n++;
	}
	return run;
}

/*
 * True: the run is decoded into the reply, past the cache. The kernel keeps what it gets, except
 * for direct I/O, and what a stream has read is not read again. Where the workers decode ahead the
 * blocks are in the cache, or will be in a moment.
 */
static bool goes_past(const struct fetch *x, struct run run, uint32_t len)
{
	if (x->kind == READ_AHEAD || x->kind == READ_STRIDES)
		return false;
	if (x->direct && x->kind == READ_RANDOM)
		return false;
	return len >= DIRECT_MIN || run.n == x->lazy->chunk.nblocks;
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
			rc = frame_read_blocks(x->f->frame, x->n, c, run, x->ws->scratch,
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

/* Bytes [lo, hi) of a loaded chunk. */
static int read_chunk(struct fetch *x, uint32_t lo, uint32_t hi)
{
	const struct chunk *c = &x->lazy->chunk;

	while (lo < hi) {
		uint32_t block = chunk_block_at(c, lo);
		struct extent e = chunk_block_bytes(c, block);
		struct run run = lo == e.off ? whole_blocks(c, block, hi) : (struct run){0, 0};
		uint32_t len = run.n ? chunk_run_bytes(c, run) : 0;
		if (run.n && goes_past(x, run, len)) {
			TRY(read_run(x, run));
		} else {
			len = (uint32_t)min_u64(e.off + e.len, hi) - lo;
			x->block = block;
			TRY(read_block(x, lo - e.off, len));
		}
		lo += len;
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
	bool later = len == c->nbytes && goes_past(x, (struct run){0, c->nblocks}, len);
	if (!checked && lo == 0 && len >= WHOLE_REQUEST && !later) {
		checked = frame_check_chunk(x->f->frame, x->n, c);
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
	TRY(cache_get(f->fs->cache, (struct cache_key){f->cache_owner, x->n}, CACHE_USE, lazy_fill,
		      x, e));
	x->lazy = cache_value(*e);
	return 0;
}

static int read_stored(struct fetch *x, uint32_t lo, uint32_t len)
{
	struct cache_entry *e;

	TRY(lazy_get(x, &e));
	int rc = check(x, lo, len);
	if (rc >= 0) {
		rc = read_chunk(x, lo, lo + len);
		/* The kernel asks again for single pages of what failed: these fail, too. */
		if (rc == -EBADMSG && len == x->lazy->chunk.nbytes && !x->lazy->chunk.sums)
			atomic_store(&x->lazy->checked, rc);
	}
	cache_put(x->f->fs->cache, e);
	return rc;
}

int file_read_stored(struct file *f, uint32_t n, uint32_t lo, struct span dst)
{
	struct reply r;
	struct fetch x = {.f = f, .n = n, .r = &r};

	reply_begin_at(&r, dst);
	int rc = read_stored(&x, lo, (uint32_t)dst.n);
	reply_end(&r, f->fs->cache);
	return rc;
}

/* Bytes [lo, lo + len) of chunk n, the newest there are. */
static int read_piece(struct fetch *x, uint32_t n, uint32_t lo, uint32_t len)
{
	struct file *f = x->f;
	struct dirty_chunk *d = dirty_find(&f->dirty, n);
	if (d) {
		stats_add(STATS_FROM_DIRTY, 1);
		return dirty_read(f, d, lo, reply_room(x->r, len));
	}
	enum slot_kind slot = frame_slot(f->frame, n);
	if (slot == SLOT_ZEROS || slot == SLOT_UNINIT) {
		memset(reply_room(x->r, len).p, 0, len);
		stats_add(STATS_FROM_HOLE, 1);
		return 0;
	}
	x->n = n;
	return read_stored(x, lo, len);
}

static int read_bytes(struct fetch *x, uint64_t at, size_t size)
{
	struct file *f = x->f;

	while (size) {
		uint32_t n = frame_chunk_at(f->frame, at);
		struct frame_span s = frame_chunk_span(f->frame, n);
		uint32_t lo = (uint32_t)(at - s.start);
		uint32_t len = (uint32_t)min_u64(s.len - lo, size);
		TRY(read_piece(x, n, lo, len));
		size -= len;
		at += len;
	}
	return 0;
}

int file_read_locked(struct file *f, uint64_t at, struct span dst)
{
	struct reply r;
	struct fetch x = {.f = f, .r = &r};

	reply_begin_at(&r, dst);
	int rc = read_bytes(&x, at, dst.n);
	reply_end(&r, f->fs->cache);
	return rc;
}

/* The .npy view: its header, then the items, which lie in the frame block after block. */
static int read_npy(struct fetch *x, uint64_t at, size_t size)
{
	const struct npy *v = x->f->npy;

	if (at < v->head_len) {
		size_t len = min_u64(v->head_len - at, size);
		memcpy(reply_room(x->r, len).p, v->head + at, len);
		size -= len;
		at += len;
	}
	while (size) {
		struct ndarray_piece p = ndarray_locate(&v->array, at - v->head_len);
		uint32_t len = (uint32_t)min_u64(p.len, size);
		uint64_t lo = (uint64_t)p.block * v->array.block_nbytes + p.in_block;
		TRY(read_piece(x, p.chunk, (uint32_t)lo, len));
		size -= len;
		at += len;
	}
	return 0;
}

static int read_locked(struct fetch *x, const struct readahead_request *q)
{
	struct file *f = x->f;
	struct readahead_request known = *q;
	uint64_t end = file_size_locked(f);

	if (q->at >= end)
		return 0;
	known.len = min_u64(q->len, end - q->at);
	x->direct = q->direct;
	x->kind = readahead_note(f, &known);
	return f->npy ? read_npy(x, q->at, known.len) : read_bytes(x, q->at, known.len);
}

/* Memory for the next blocks is got by a worker: a reader would wait for it (base/slab.h). */
static void warm_run(struct pool_job *job)
{
	struct fs *fs = (struct fs *)((char *)job - offsetof(struct fs, warm));

	cache_warm(fs->cache);
	atomic_store(&fs->warming, false);
}

static void warm(struct fs *fs)
{
	if (!cache_wants_warm(fs->cache) || atomic_exchange(&fs->warming, true))
		return;
	fs->warm.run = warm_run;
	pool_submit(fs->pool, &fs->warm, POOL_LATER);
}

static int read_into(struct file *f, const struct readahead_request *q, struct reply *r)
{
	struct fetch x = {.f = f, .r = r};

	err_clear();
	bool held = file_enter_shared(f);
	pthread_rwlock_rdlock(&f->lock);
	int rc = read_locked(&x, q);
	pthread_rwlock_unlock(&f->lock);
	file_leave_shared(f, held);
	warm(f->fs);
	if (rc >= 0)
		stats_add(STATS_READ_BYTES, r->n);
	return rc;
}

int file_read(struct file *f, const struct readahead_request *q, struct reply *r)
{
	TRY(reply_begin(r, q->len));
	return read_into(f, q, r);
}

ssize_t file_read_at(struct file *f, uint64_t at, struct span dst)
{
	struct reply r;

	reply_begin_at(&r, dst);
	int rc = read_into(f, &(struct readahead_request){at, dst.n, false}, &r);
	ssize_t n = (ssize_t)r.n;
	reply_end(&r, f->fs->cache);
	return rc < 0 ? rc : n;
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
		TRY(cache_get(cache, key, CACHE_SCAN, block_fill, x, &e));
		if (x->filled)
			cache_mark_unused(e);
		cache_put(cache, e);
	}
	return 0;
}

/* The piece of one chunk that begins at `at`. Returns its length, or why not. */
static int64_t decode_piece(struct fetch *x, uint64_t at, uint64_t len)
{
	struct file *f = x->f;
	struct cache_entry *e;
	uint32_t n = frame_chunk_at(f->frame, at);
	struct frame_span s = frame_chunk_span(f->frame, n);
	uint32_t lo = (uint32_t)(at - s.start), hi = (uint32_t)min_u64(s.len, lo + len);

	if (!dirty_find(&f->dirty, n) && frame_slot(f->frame, n) == SLOT_STORED) {
		x->n = n;
		TRY(lazy_get(x, &e));
		/* Of a chunk that all of is going to be read (see check). */
		int rc = check(x, lo, hi - lo);
		if (rc >= 0)
			rc = decode_blocks(x, lo, hi);
		cache_put(f->fs->cache, e);
		TRY(rc);
	}
	return hi - lo;
}

/*
 * Only a hint: where somebody writes, or another program may change the frame, nothing is decoded
 * ahead, so that a worker never waits. What fails here will fail again for the reader, who tells.
 */
void file_decode_ahead(struct file *f, uint64_t at, uint64_t len)
{
	struct fetch x = {.f = f};

	if (f->npy || atomic_load(&f->sidecar.there) || pthread_rwlock_tryrdlock(&f->lock) != 0)
		return;
	err_clear();
	uint64_t end = min_u64(at + len, frame_size(f->frame));
	while (at < end) {
		int64_t done = decode_piece(&x, at, end - at);
		if (done <= 0)
			break;
		at += (uint64_t)done;
	}
	pthread_rwlock_unlock(&f->lock);
}

static bool has_data(const struct file *f, uint32_t n)
{
	enum slot_kind slot = frame_slot(f->frame, n);
	return slot == SLOT_STORED || slot == SLOT_NAN || dirty_find(&f->dirty, n);
}

static int seek_locked(struct file *f, uint64_t at, int whence, uint64_t *found)
{
	uint64_t end = f->npy ? f->npy->size : frame_size(f->frame);

	if (at >= end)
		return -ENXIO;
	if (f->npy) {
		*found = whence == SEEK_DATA ? at : end;
		return 0;
	}
	uint32_t n = frame_chunk_at(f->frame, at), last = frame_nchunks(f->frame);
	while (n < last && has_data(f, n) != (whence == SEEK_DATA))
		n++;
	if (n == last) {
		*found = end;
		return whence == SEEK_DATA ? -ENXIO : 0;
	}
	*found = max_u64(at, frame_chunk_span(f->frame, n).start);
	return 0;
}

int file_seek(struct file *f, uint64_t at, int whence, uint64_t *found)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = seek_locked(f, at, whence, found);
	pthread_rwlock_unlock(&f->lock);
	return rc;
}
