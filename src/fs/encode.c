#include "fs/encode.h"

#include <assert.h>

/* The chunk as it is stored now. The lock covers the index; the bytes of a chunk never change. */
static int read_base(struct file *f, uint32_t n, struct workspace *ws, struct chunk *base)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = frame_load_chunk(f->frame, n, ws->scratch, base);
	if (rc >= 0)
		rc = frame_read_raw(f->frame, n, &ws->base);
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/* The runs of blocks that are here, as edits. */
static int list_edits(const struct dirty_chunk *c, struct buf *out, size_t *n)
{
	uint32_t nblocks = (uint32_t)ceil_div(c->bytes.n, c->blocksize);

	out->n = *n = 0;
	for (uint32_t b = 0; b < nblocks;) {
		uint32_t first = b;
		while (b < nblocks && c->have[b])
			b++;
		if (b == first) {
			b++;
			continue;
		}
		size_t off = (size_t)first * c->blocksize;
		size_t end = min_u64((uint64_t)b * c->blocksize, c->bytes.n);
		struct chunk_edit edit = {{first, b - first}, view_of(c->bytes.p + off, end - off)};
		TRY(buf_append(out, view_of(&edit, sizeof edit)));
		++*n;
	}
	return 0;
}

static int patch(const struct dirty_chunk *c, const struct chunk *base, struct workspace *ws)
{
	struct pipeline level = policy_header(&c->file->policy);
	struct chunk_patch p = {.chunk = base, .stored = buf_view(&ws->base), .pipeline = &level};

	if (base->blocksize != c->blocksize)
		return 1;
	TRY(list_edits(c, &ws->edits, &p.nedits));
	p.edit = (const struct chunk_edit *)(const void *)ws->edits.p;
	return chunk_patch(ws->scratch, &p, &ws->stored);
}

/* All plain bytes in ws->plain: those of the stored chunk under those that are here. */
static int merge(const struct dirty_chunk *c, struct workspace *ws)
{
	TRY(buf_reserve_fresh(&ws->plain, c->bytes.n));
	ws->plain.n = c->bytes.n;
	TRY(chunk_decode_all(ws->scratch, buf_view(&ws->base), frame_info(c->file->frame)->type_size,
			     buf_span(&ws->plain)));
	for (size_t off = 0, b = 0; off < c->bytes.n; off += c->blocksize, b++)
		if (c->have[b])
			memcpy(ws->plain.p + off, c->bytes.p + off, min_u64(c->blocksize, c->bytes.n - off));
	return 0;
}

static int encode_whole(struct file *f, const struct dirty_chunk *c, struct view plain,
			struct workspace *ws)
{
	uint32_t chunk_size = frame_info(f->frame)->chunk_size;
	struct policy_chunk what = {plain, (uint64_t)c->n * chunk_size, c->file_size, chunk_size};
	struct pipeline p;

	TRY(policy_choose(&f->policy, ws->scratch, &what, &p));
	TRY(chunk_encode(ws->scratch, &p, plain, &ws->stored));
	policy_learn(&f->policy, plain.n, ws->stored.n);
	return 0;
}

static int encode_or_hole(struct file *f, const struct dirty_chunk *c, struct view plain,
			  struct workspace *ws, bool *zeros)
{
	*zeros = bytes_are_zero(plain);
	return *zeros ? 0 : encode_whole(f, c, plain, ws);
}

int encode_chunk(struct file *f, const struct dirty_chunk *c, struct workspace *ws, bool *zeros)
{
	struct chunk base = {0};

	*zeros = false;
	if (!c->have)
		return encode_or_hole(f, c, buf_view(&c->bytes), ws, zeros);
	int rc = read_base(f, c->n, ws, &base);
	if (rc >= 0)
		rc = patch(c, &base, ws);
	if (rc == 1) {
		rc = merge(c, ws);
		if (rc >= 0)
			rc = encode_or_hole(f, c, buf_view(&ws->plain), ws, zeros);
	}
	chunk_deinit(&base);
	return rc;
}
