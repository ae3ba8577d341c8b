/* The reading half of file.h. */
#include "fs/file.h"
#include "fs/file_share.h"
#include "fs/stats.h"
#include "fs/view_npy.h"
#include "fs/workspace.h"

#include <unistd.h>

/* Runs of whole blocks from this size on are decoded into the reply, not into the cache. */
#define DIRECT_MIN (32 << 10)

/* A chunk whose head has been read. Blocks in the cache belong to `id`: a chunk that is
 * replaced gets a new one, and its old blocks can't be found any more. */
struct lazy {
	struct chunk chunk;
	uint64_t id;
};

struct fetch {
	struct file *f;
	struct workspace *ws;
	uint32_t n;              /* chunk */
	const struct lazy *lazy; /* for blocks */
	uint32_t block;
	bool filled; /* by this fetch */
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
	*out = (struct cache_value){l, chunk_footprint(&l->chunk) + sizeof *l, lazy_release};
	return 0;
}

static void block_release(void *p)
{
	struct buf *b = p;
	buf_free(b);
	mem_free(b);
}

static int block_fill(void *ctx, struct cache_value *out)
{
	struct fetch *x = ctx;
	const struct chunk *c = &x->lazy->chunk;
	struct run run = {x->block, 1};
	x->filled = true;
	struct buf *b = mem_zalloc(sizeof *b);

	if (!b)
		return -ENOMEM;
	int rc = buf_reserve(b, chunk_run_bytes(c, run));
	if (rc >= 0) {
		b->n = chunk_run_bytes(c, run);
		rc = frame_read_blocks(x->f->frame, x->n, c, run, x->ws->scratch, buf_span(b));
	}
	if (rc < 0) {
		block_release(b);
		return rc;
	}
	*out = (struct cache_value){b, b->cap + sizeof *b + 128, block_release};
	return 0;
}

/* Bytes [lo, lo + dst.n) of one block, by way of the cache. */
static int read_block(struct fetch *x, uint32_t lo, struct span dst)
{
	struct cache *cache = x->f->fs->cache;
	struct cache_entry *e;

	x->filled = false;
	TRY(cache_get(cache, (struct cache_key){x->lazy->id, x->block}, block_fill, x, &e));
	stats_add(x->filled ? STATS_FROM_MISS : STATS_FROM_CACHE, 1);
	const struct buf *b = cache_value(e);
	memcpy(dst.p, b->p + lo, dst.n);
	cache_put(cache, e);
	return 0;
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

/* Bytes [lo, lo + dst.n) of a loaded chunk. */
static int read_chunk(struct fetch *x, uint32_t lo, struct span dst)
{
	const struct chunk *c = &x->lazy->chunk;
	uint32_t hi = lo + (uint32_t)dst.n;

	while (lo < hi) {
		uint32_t block = chunk_block_at(c, lo);
		struct extent e = chunk_block_bytes(c, block);
		struct run run = lo == e.off ? whole_blocks(c, block, hi) : (struct run){0, 0};
		uint32_t len = run.n ? chunk_run_bytes(c, run) : 0;
		if (len >= DIRECT_MIN) {
			stats_add(STATS_FROM_MISS, run.n);
			TRY(frame_read_blocks(x->f->frame, x->n, c, run, x->ws->scratch,
					      span_of(dst.p, len)));
		} else {
			len = (uint32_t)min_u64(e.off + e.len, hi) - lo;
			x->block = block;
			TRY(read_block(x, lo - e.off, span_of(dst.p, len)));
		}
		dst = span_of(dst.p + len, dst.n - len);
		lo += len;
	}
	return 0;
}

/* The parsed head of a stored chunk, from the cache. */
static int lazy_get(struct fetch *x, struct cache_entry **e)
{
	struct file *f = x->f;

	x->ws = workspace_get();
	if (!x->ws)
		return -ENOMEM;
	TRY(cache_get(f->fs->cache, (struct cache_key){f->cache_owner, x->n}, lazy_fill, x, e));
	x->lazy = cache_value(*e);
	return 0;
}

int file_read_stored(struct file *f, uint32_t n, uint32_t lo, struct span dst)
{
	struct fetch x = {.f = f, .n = n};
	struct cache_entry *e;

	TRY(lazy_get(&x, &e));
	int rc = read_chunk(&x, lo, dst);
	cache_put(f->fs->cache, e);
	return rc;
}

/* Bytes [lo, lo + dst.n) of chunk n, the newest there are. */
static int read_piece(struct file *f, uint32_t n, uint32_t lo, struct span dst)
{
	struct dirty_chunk *d = dirty_find(&f->dirty, n);
	if (d) {
		stats_add(STATS_FROM_DIRTY, 1);
		return dirty_read(f, d, lo, dst);
	}
	enum slot_kind slot = frame_slot(f->frame, n);
	if (slot == SLOT_ZEROS || slot == SLOT_UNINIT) {
		memset(dst.p, 0, dst.n);
		stats_add(STATS_FROM_HOLE, 1);
		return 0;
	}
	return file_read_stored(f, n, lo, dst);
}

int file_read_locked(struct file *f, uint64_t at, struct span dst)
{
	while (dst.n) {
		uint32_t n = frame_chunk_at(f->frame, at);
		struct frame_span s = frame_chunk_span(f->frame, n);
		uint32_t lo = (uint32_t)(at - s.start);
		size_t len = min_u64(s.len - lo, dst.n);
		TRY(read_piece(f, n, lo, span_of(dst.p, len)));
		dst = span_of(dst.p + len, dst.n - len);
		at += len;
	}
	return 0;
}

/* The .npy view: header, then items gathered piece by piece. */
static int read_npy(struct file *f, uint64_t at, struct span dst)
{
	const struct npy *v = f->npy;

	if (at < v->head_len) {
		size_t len = min_u64(v->head_len - at, dst.n);
		memcpy(dst.p, v->head + at, len);
		dst = span_of(dst.p + len, dst.n - len);
		at += len;
	}
	while (dst.n) {
		struct ndarray_piece p = ndarray_locate(&v->array, at - v->head_len);
		size_t len = min_u64(p.len, dst.n);
		uint64_t lo = (uint64_t)p.block * v->array.block_nbytes + p.in_block;
		TRY(read_piece(f, p.chunk, (uint32_t)lo, span_of(dst.p, len)));
		dst = span_of(dst.p + len, dst.n - len);
		at += len;
	}
	return 0;
}

static int read_locked(struct file *f, uint64_t at, size_t size, struct buf *out)
{
	uint64_t end = f->npy ? f->npy->size : frame_size(f->frame);

	out->n = 0;
	if (at >= end)
		return 0;
	size = min_u64(size, end - at);
	TRY(buf_reserve_fresh(out, size));
	TRY(f->npy ? read_npy(f, at, span_of(out->p, size)) : file_read_locked(f, at, span_of(out->p, size)));
	out->n = size;
	return 0;
}

int file_read(struct file *f, uint64_t at, size_t size, struct buf *out)
{
	err_clear();
	bool held = file_enter_shared(f);
	pthread_rwlock_rdlock(&f->lock);
	int rc = read_locked(f, at, size, out);
	pthread_rwlock_unlock(&f->lock);
	file_leave_shared(f, held);
	if (rc >= 0)
		stats_add(STATS_READ_BYTES, out->n);
	return rc;
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
