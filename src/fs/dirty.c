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

/* Room for `need` bytes, by doubling, so that a small file stays small. The budget counts it. */
static int chunk_reserve(struct file *f, struct dirty_chunk *c, uint32_t need)
{
	size_t before = c->bytes.cap;
	size_t limit = frame_info(f->frame)->chunk_size;

	if (need <= before)
		return 0;
	TRY(buf_reserve(&c->bytes, need > limit / 2 ? max_u64(limit, need)
						    : max_u64(need, min_u64(limit, before * 2))));
	budget_add(f->fs->budget, (int64_t)(c->bytes.cap - before));
	return 0;
}

void dirty_free(struct file *f, struct dirty_chunk *c)
{
	budget_add(f->fs->budget, -(int64_t)c->bytes.cap);
	buf_free(&c->bytes);
	mem_free(c);
}

/* The bytes that the chunk has now. */
static int load(struct file *f, struct dirty_chunk *c)
{
	struct dirty_chunk *old = dirty_find_flushing(&f->dirty, c->n);
	if (old) {
		TRY(chunk_reserve(f, c, (uint32_t)old->bytes.n));
		memcpy(c->bytes.p, old->bytes.p, old->bytes.n);
		c->bytes.n = old->bytes.n;
		return 0;
	}
	enum slot_kind slot = frame_slot(f->frame, c->n);
	if (slot == SLOT_ZEROS || slot == SLOT_UNINIT)
		return 0;
	struct workspace *ws = workspace_get();
	if (!ws)
		return -ENOMEM;
	uint32_t len = frame_chunk_span(f->frame, c->n).len;
	TRY(chunk_reserve(f, c, len));
	TRY(frame_read_chunk(f->frame, c->n, ws->scratch, span_of(c->bytes.p, len)));
	c->bytes.n = len;
	return 0;
}

/* Makes [0, hi) addressable, with zeros up to lo; [lo, hi) is the caller's to fill. */
static int stretch(struct file *f, struct dirty_chunk *c, uint32_t lo, uint32_t hi)
{
	TRY(chunk_reserve(f, c, hi));
	if (lo > c->bytes.n)
		memset(c->bytes.p + c->bytes.n, 0, lo - c->bytes.n);
	if (hi > c->bytes.n)
		c->bytes.n = hi;
	return 0;
}

int dirty_pad(struct file *f, struct dirty_chunk *c, uint32_t len)
{
	return stretch(f, c, len, len);
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
	int rc = covered ? 0 : load(f, c);
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

void dirty_drop(struct file *f, struct dirty_chunk *c)
{
	HASH_DEL(f->dirty.dirty, c);
	dirty_free(f, c);
}
