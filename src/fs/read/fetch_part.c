/* Small random reads: each decodes no more of its block than necessary. */
#include "fs/read/fetch_impl.h"

#include "fs/stats.h"

/*
 * A read of at most 1 / PACKED_SHARE of a block undoes the last filter for its own bytes only.
 * After a larger one, the rest of the block will soon be read, too.
 */
#define PACKED_SHARE 4

/* Decoding a part that ends in a block's last quarter takes about as long as all of it. */
#define PART_QUARTERS 3

/*
 * Small random reads of a file are dense once there were more than 1 / DENSE_SHARE of its blocks:
 * as many may be yet to come, anywhere in it. Then the AROUND bytes in which each of them lies are
 * pushed to the kernel (ops/push.h). Not for files longer than DENSE_CACHES times the cache: the
 * kernel might not keep all of that, or drop more useful pages for it.
 */
#define DENSE_SHARE 2
#define DENSE_CACHES 4
#define AROUND REPLY_PUSH_MAX

bool fetch_is_small(const struct fetch *x, uint32_t len)
{
	return x->kind == READ_RANDOM && !x->direct && !x->f->npy &&
	       len <= chunk_block_bytes(&x->lazy->chunk, x->block).len / PACKED_SHARE;
}

/* True: a small read of a block that was not wanted lately, and not of its last quarter. */
static bool wants_part(const struct fetch *x, uint32_t lo, uint32_t len)
{
	const struct chunk *c = &x->lazy->chunk;
	struct fs *fs = x->f->fs;
	struct cache_key key = {x->lazy->id, x->block};
	uint32_t whole = chunk_block_bytes(c, x->block).len;

	return fetch_is_small(x, len) && whole <= LARGE_FREE / 4 &&
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

void fetch_note_small(const struct fetch *x, bool cached)
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

/* Most blocks of cold files get no second read. */
int fetch_part(struct fetch *x, uint32_t lo, uint32_t len)
{
	if (!wants_part(x, lo, len))
		return CHUNK_NO_PART;
	int rc = frame_read_part(fetch_loaded(x), (struct chunk_part){x->block, lo}, x->ws->scratch,
				 reply_next(x->r, len));
	if (rc == 0) {
		(void)reply_room(x->r, len);
		stats_add(STATS_FROM_MISS, 1);
		fetch_note_small(x, false);
	}
	return rc;
}
