#include "fs/dirty.h"

#include "fs/file.h"
#include "fs/workspace.h"

#include <assert.h>

struct dirty_chunk *dirty_find_flushing(const struct dirty *d, uint32_t n)
{
	struct dirty_chunk *c;
	HASH_FIND(hh, d->flushing, &n, sizeof n, c);
	return c;
}

struct dirty_chunk *dirty_find(const struct dirty *d, uint32_t n)
{
	struct dirty_chunk *c;
	HASH_FIND(hh, d->dirty, &n, sizeof n, c);
	return c ? c : dirty_find_flushing(d, n);
}

/* What a chunk holds counts against the budget; of one dirty in part, the blocks that are here. */
static void charge(struct file *f, struct dirty_chunk *c, size_t bytes)
{
	budget_add(f->fs->budget, (int64_t)bytes - (int64_t)c->charged);
	c->charged = bytes;
}

/* Room for `need` bytes, by doubling, so that a small file stays small. */
static int chunk_reserve(struct file *f, struct dirty_chunk *c, uint32_t need)
{
	size_t before = c->bytes.cap;
	size_t limit = frame_info(f->frame)->chunk_size;

	if (need <= before)
		return 0;
	if (!before && !c->have && need > limit / 2)
		c->bytes = spare_take(f->fs->spare, limit);
	TRY(buf_reserve(&c->bytes, need > limit / 2 ? max_u64(limit, need)
						    : max_u64(need, min_u64(limit, before * 2))));
	if (!c->have)
		charge(f, c, c->bytes.cap);
	return 0;
}

void dirty_free(struct file *f, struct dirty_chunk *c)
{
	charge(f, c, 0);
	if (c->bytes.cap >= frame_info(f->frame)->chunk_size && !c->have)
		spare_give(f->fs->spare, &c->bytes);
	else
		buf_free(&c->bytes);
	mem_free(c->have);
	mem_free(c);
}

static uint32_t nblocks(const struct dirty_chunk *c)
{
	return (uint32_t)ceil_div(c->bytes.n, c->blocksize);
}

/* Decoded place of a block in its chunk. */
static struct extent block_bytes(const struct dirty_chunk *c, uint32_t b)
{
	uint32_t off = b * c->blocksize;
	return (struct extent){off, (uint32_t)min_u64(c->blocksize, c->bytes.n - off)};
}

/* The blocks of [lo, hi) get here, but for those that will be written over as a whole. */
static int load_blocks(struct file *f, struct dirty_chunk *c, uint32_t lo, uint32_t hi)
{
	for (uint32_t b = lo / c->blocksize; b < nblocks(c) && b * c->blocksize < hi; b++) {
		struct extent e = block_bytes(c, b);
		if (c->have[b])
			continue;
		if (lo > e.off || hi < e.off + e.len)
			TRY(file_read_stored(f, c->n, e.off, span_of(c->bytes.p + e.off, e.len)));
		c->have[b] = true;
		charge(f, c, c->charged + e.len);
	}
	return 0;
}

/* From dirty in part to wholly here. */
static int complete(struct file *f, struct dirty_chunk *c)
{
	if (!c->have)
		return 0;
	for (uint32_t b = 0; b < nblocks(c); b++) {
		struct extent e = block_bytes(c, b);
		if (c->have[b])
			continue;
		TRY(file_read_stored(f, c->n, e.off, span_of(c->bytes.p + e.off, e.len)));
		c->have[b] = true;
	}
	mem_free(c->have);
	c->have = NULL;
	charge(f, c, c->bytes.cap);
	return 0;
}

/* The bytes that an older copy has, which is with the workers. */
static int copy_flushing(struct file *f, struct dirty_chunk *c, const struct dirty_chunk *old)
{
	if (old->have) {
		c->blocksize = old->blocksize;
		c->have = mem_zalloc_array(nblocks(old), sizeof *c->have);
		if (!c->have)
			return -ENOMEM;
	}
	TRY(chunk_reserve(f, c, (uint32_t)old->bytes.n));
	c->bytes.n = old->bytes.n;
	if (!old->have) {
		memcpy(c->bytes.p, old->bytes.p, old->bytes.n);
		return 0;
	}
	for (uint32_t b = 0; b < nblocks(old); b++) {
		struct extent e = block_bytes(old, b);
		if (!old->have[b])
			continue;
		memcpy(c->bytes.p + e.off, old->bytes.p + e.off, e.len);
		c->have[b] = true;
	}
	charge(f, c, old->charged);
	return 0;
}

/* Few of its blocks will change: the others need not come here at all. */
static bool part_is_enough(const struct file_stored *st, uint32_t len, uint32_t lo, uint32_t hi)
{
	return st->patchable && st->blocksize <= len / 4 && hi - lo <= len / 4;
}

static int load_stored(struct file *f, struct dirty_chunk *c, uint32_t lo, uint32_t hi)
{
	uint32_t len = frame_chunk_span(f->frame, c->n).len;
	struct workspace *ws = workspace_get();
	struct file_stored st;

	if (!ws)
		return -ENOMEM;
	TRY(file_look_stored(f, c->n, &st));
	if (hi > lo && part_is_enough(&st, len, lo, hi)) {
		c->blocksize = st.blocksize;
		c->have = mem_zalloc_array(ceil_div(len, c->blocksize), sizeof *c->have);
		if (!c->have)
			return -ENOMEM;
		TRY(chunk_reserve(f, c, len));
		c->bytes.n = len;
		return load_blocks(f, c, lo, hi);
	}
	TRY(chunk_reserve(f, c, len));
	TRY(frame_read_chunk(f->frame, c->n, ws->scratch, span_of(c->bytes.p, len)));
	c->bytes.n = len;
	return 0;
}

/* The bytes that the chunk has now, as far as a write to [lo, hi) needs them. */
static int load(struct file *f, struct dirty_chunk *c, uint32_t lo, uint32_t hi)
{
	struct dirty_chunk *old = dirty_find_flushing(&f->dirty, c->n);
	if (old)
		return copy_flushing(f, c, old);
	enum slot_kind slot = frame_slot(f->frame, c->n);
	if (slot == SLOT_ZEROS || slot == SLOT_UNINIT)
		return 0;
	return load_stored(f, c, lo, hi);
}

/* Makes [0, hi) addressable, with zeros up to lo; [lo, hi) is the caller's to fill. */
static int stretch(struct file *f, struct dirty_chunk *c, uint32_t lo, uint32_t hi)
{
	if (c->have)
		return load_blocks(f, c, lo, hi);
	TRY(chunk_reserve(f, c, hi));
	if (lo > c->bytes.n)
		memset(c->bytes.p + c->bytes.n, 0, lo - c->bytes.n);
	if (hi > c->bytes.n)
		c->bytes.n = hi;
	return 0;
}

int dirty_pad(struct file *f, struct dirty_chunk *c, uint32_t len)
{
	return c->have ? 0 : stretch(f, c, len, len);
}

int dirty_get(struct file *f, uint32_t n, uint32_t lo, uint32_t hi, struct dirty_chunk **out)
{
	struct dirty_chunk *c;

	HASH_FIND(hh, f->dirty.dirty, &n, sizeof n, c);
	if (c) {
		TRY(stretch(f, c, lo, hi));
		*out = c;
		return 0;
	}
	c = mem_zalloc(sizeof *c);
	if (!c)
		return -ENOMEM;
	c->file = f;
	c->n = n;
	bool covered = lo == 0 && hi == frame_chunk_span(f->frame, n).len;
	int rc = covered ? 0 : load(f, c, lo, hi);
	if (rc >= 0)
		rc = stretch(f, c, lo, hi);
	if (rc >= 0) {
		HASH_ADD(hh, f->dirty.dirty, n, sizeof c->n, c);
		rc = c->hh.tbl ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		dirty_free(f, c);
		return rc;
	}
	*out = c;
	return 0;
}

int dirty_get_whole(struct file *f, uint32_t n, struct dirty_chunk **out)
{
	TRY(dirty_get(f, n, 0, 0, out));
	return complete(f, *out);
}

static int read_part(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst)
{
	while (dst.n) {
		uint32_t b = lo / c->blocksize;
		struct extent e = block_bytes(c, b);
		size_t len = min_u64(e.off + e.len - lo, dst.n);
		if (c->have[b])
			memcpy(dst.p, c->bytes.p + lo, len);
		else
			TRY(file_read_stored(f, c->n, lo, span_of(dst.p, len)));
		dst = span_of(dst.p + len, dst.n - len);
		lo += (uint32_t)len;
	}
	return 0;
}

int dirty_read(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst)
{
	if (c->have)
		return read_part(f, c, lo, dst);
	size_t have = lo < c->bytes.n ? min_u64(c->bytes.n - lo, dst.n) : 0;
	memcpy(dst.p, c->bytes.p + lo, have);
	memset(dst.p + have, 0, dst.n - have);
	return 0;
}

void dirty_drop(struct file *f, struct dirty_chunk *c)
{
	HASH_DEL(f->dirty.dirty, c);
	dirty_free(f, c);
}
