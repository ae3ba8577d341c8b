/*
 * Replaces some blocks of a chunk. The others are copied in their stored form, without the gaps
 * that other writers may have left between blocks.
 */
#include "codec/block_sums.h"
#include "codec/chunk_impl.h"
#include "codec/scratch_impl.h"

#include <assert.h>

struct patcher {
	const struct chunk_patch *p;
	const struct chunk *c;
	const struct chunk *old; /* the shorter chunk that gets longer, or NULL */
	struct scratch *s;
	struct block_plan plan;
	size_t limit; /* the most bytes that the result may have */
};

static bool filters_can_be_written(const struct block_plan *plan)
{
	for (unsigned i = 0; i < plan->nsteps; i++)
		if (!plan->step[i].row->forward || plan->step[i].row->loses)
			return false;
	return true;
}

/* With delta, every block depends on block 0. */
static bool delta_stays(const struct chunk_patch *p)
{
	const struct chunk *c = p->chunk;
	return !chunk_wants_ref(c) || (c->ref.n && p->edit[0].run.first > 0);
}

/* The codec for encoding: chunks do not tell lz4hc from lz4, so the pipeline has to. */
static const struct codec *writer_of(const struct chunk_patch *p)
{
	const struct codec *own = codec_by_id(p->chunk->codec);
	const struct codec *asked = codec_by_id(p->pipeline->codec);
	return asked && asked->format == own->format ? asked : own;
}

static void check_edits(const struct chunk_patch *p)
{
	uint32_t next = 0;
	assert(p->nedits > 0 && p->stored.n == p->chunk->cbytes);
	for (size_t i = 0; i < p->nedits; i++) {
		const struct chunk_edit *e = &p->edit[i];
		assert(e->run.n > 0 && e->run.first >= next);
		assert(e->bytes.n == chunk_run_bytes(p->chunk, e->run));
		next = e->run.first + e->run.n;
	}
	(void)next; /* unused without asserts */
}

static int patch_stored(const struct chunk_patch *p, struct buf *out)
{
	TRY(buf_reserve_fresh(out, p->stored.n));
	bytes_copy(out->p, p->stored.p, p->stored.n);
	out->n = p->stored.n;
	for (size_t i = 0; i < p->nedits; i++) {
		uint32_t off = chunk_extent(p->chunk, p->edit[i].run).off;
		memcpy(out->p + off, p->edit[i].bytes.p, p->edit[i].bytes.n);
	}
	return 0;
}

static uint32_t streams_of(const struct chunk *c, uint32_t block)
{
	return c->split && chunk_block_bytes(c, block).len == c->blocksize ? c->typesize : 1;
}

/* A block of the new chunk. */
struct placed {
	ssize_t len; /* as block_encode: 0: does not fit */
	uint32_t sum;
};

/* The length of a block's streams, without bytes that another writer may have left after them. */
static ssize_t streams_len(const struct chunk *c, uint32_t i, struct view v)
{
	struct cursor in = cursor_of(v);
	for (uint32_t k = streams_of(c, i); k; k--)
		TRY(stream_skip(&in));
	return (ssize_t)in.at;
}

/*
 * A checksum is copied with the block, and covers all its bytes: recomputing it for a block that
 * now seems shorter could conceal damage.
 */
static struct placed copy_block(const struct patcher *pt, uint32_t i, struct span dst)
{
	const struct chunk *c = pt->c;
	struct view v = stored_block(c, i, pt->p->stored, 0);
	ssize_t n = c->sums ? (ssize_t)v.n : streams_len(c, i, v);
	if (n < 0 || (size_t)n > dst.n)
		return (struct placed){.len = n < 0 ? n : 0};
	bytes_copy(dst.p, v.p, (size_t)n);
	return (struct placed){n, c->sums ? c->sums[i] : block_sums_of(view_of(dst.p, (size_t)n))};
}

static struct block block_of(const struct chunk *c, uint32_t i)
{
	struct block b = {.nstreams = streams_of(c, i)};
	if (i && chunk_wants_ref(c))
		b.ref = buf_view(&c->ref);
	return b;
}

/*
 * Appends to the stored form of the last old block. 0: it has to be encoded. That includes a block
 * that has become full, in a chunk of several: it would keep its uncompressed tail for good.
 */
static ssize_t append_to_block(const struct patcher *pt, uint32_t i, struct view src,
			       struct span dst)
{
	const struct chunk *old = pt->old;
	if (!old || !pt->p->kept || i + 1 != old->nblocks || pt->plan.nsteps)
		return 0;
	if (old->nblocks > 1 && src.n == old->blocksize)
		return 0;
	uint32_t n = chunk_block_bytes(old, i).len;
	assert(src.n > n && streams_of(pt->c, i) == 1);
	struct cursor in = cursor_of(stored_block(old, i, pt->p->stored, 0));
	return stream_append(&pt->plan.coder, &in, n, view_from(src, n), dst);
}

static ssize_t encode_new(const struct patcher *pt, uint32_t i, struct view src, struct span dst)
{
	struct block b = block_of(pt->c, i);
	return pt->p->pipeline->level ? block_encode(&pt->plan, pt->s, &b, src, dst)
				      : stream_put_plain(src, dst);
}

static struct placed encode_block(const struct patcher *pt, uint32_t i, struct view src,
				  struct span dst)
{
	ssize_t n = append_to_block(pt, i, src, dst);
	if (n == 0 && !(pt->old && pt->old->nblocks == 1))
		n = encode_new(pt, i, src, dst);
	return (struct placed){n, n > 0 ? block_sums_of(view_of(dst.p, (size_t)n)) : 0};
}

/* Decides by the first of the new blocks. */
static int plan_cuts(struct patcher *pt)
{
	const struct chunk_edit *e = &pt->p->edit[0];
	uint32_t i = e->run.first;
	struct block b = block_of(pt->c, i);
	return block_plan_cuts(&pt->plan, pt->s, &b,
			       view_part(e->bytes, 0, chunk_block_bytes(pt->c, i).len));
}

static struct placed put_block(const struct patcher *pt, uint32_t i,
			       const struct chunk_edit **next, struct span dst)
{
	const struct chunk_edit *e = *next, *end = pt->p->edit + pt->p->nedits;
	if (e == end || i < e->run.first)
		return copy_block(pt, i, dst);
	struct extent at = chunk_block_bytes(pt->c, i);
	uint32_t start = chunk_block_bytes(pt->c, e->run.first).off;
	if (i + 1 == e->run.first + e->run.n)
		++*next;
	return encode_block(pt, i, view_part(e->bytes, at.off - start, at.len), dst);
}

static void put_header(const struct patcher *pt, struct buf *out)
{
	memcpy(out->p, pt->p->stored.p, CHUNK_HEAD);
	put_le32(out->p + AT_NBYTES, pt->c->nbytes);
	put_le32(out->p + AT_BLOCKSIZE, pt->c->blocksize);
	put_le32(out->p + AT_CBYTES, (uint32_t)out->n);
	out->p[AT_UDCODEC] = pt->plan.coder.codec->id;
	/* Keeps only flags that we understand and that still hold. */
	out->p[AT_BLOSC2_FLAGS] = 0;
}

static int patch_regular(struct patcher *pt, struct buf *out)
{
	const struct chunk *c = pt->c;
	const struct chunk_edit *next = pt->p->edit;
	TRY(buf_reserve_fresh(out, pt->limit));
	size_t table = bstart_place(c->nblocks), len = block_sums_len(c->nblocks);
	out->n = table + len;
	if (out->n >= pt->limit)
		return 1;
	for (uint32_t i = 0; i < c->nblocks; i++) {
		put_le32(out->p + bstart_place(i), (uint32_t)out->n);
		struct span room = span_of(out->p + out->n, pt->limit - out->n);
		struct placed b = put_block(pt, i, &next, room);
		if (b.len <= 0)
			return b.len < 0 ? (int)b.len : 1;
		if (len)
			block_sums_put(out->p + table, i, b.sum);
		out->n += (size_t)b.len;
	}
	put_header(pt, out);
	if (len)
		block_sums_seal(out->p, table, c->nblocks);
	return 0;
}

static bool is_plain(const struct chunk *c)
{
	return c->kind == CHUNK_REGULAR && chunk_run_is_plain(c, (struct run){0, c->nblocks});
}

/* Whether chunk and pipeline allow patching, apart from filters_can_be_written. */
static bool can_be_patched(const struct chunk_patch *p, bool plain)
{
	const struct chunk *c = p->chunk;
	if (c->kind != CHUNK_REGULAR || c->is_vl || c->has_dict)
		return false;
	if (c->version != VERSION_NOW || c->head_len != CHUNK_HEAD)
		return false;
	/* Level 0 writes plain bytes, which would be wrong with filters or split streams. */
	if (!p->pipeline->level && !plain)
		return false;
	return delta_stays(p);
}

/* 1: the chunk has a filter that cannot be written. */
static int plan_patch(struct patcher *pt)
{
	struct stream_coder *coder = &pt->plan.coder;
	TRY(chunk_plan(&pt->plan, pt->c, pt->s));
	if (!filters_can_be_written(&pt->plan))
		return 1;
	coder->codec = writer_of(pt->p);
	coder->level = pt->p->pipeline->level;
	TRY(scratch_state(pt->s, coder->codec, &coder->state));
	return plan_cuts(pt);
}

/* `old`: the chunk before it got longer, or NULL. */
static int patch(struct scratch *s, const struct chunk_patch *p, const struct chunk *old,
		 struct buf *out)
{
	const struct chunk *c = p->chunk;
	bool plain = !old && is_plain(c); /* such a chunk does not get longer: lengthen */
	if (!can_be_patched(p, plain))
		return 1;
	struct patcher pt = {
		.p = p, .c = c, .old = old, .s = s, .limit = CHUNK_HEAD + (size_t)c->nbytes - 1};
	if (plain) /* no block gets longer */
		pt.limit = c->cbytes;
	int rc = plan_patch(&pt);
	if (!rc)
		rc = patch_regular(&pt, out);
	scratch_done(s);
	return rc;
}

/* True: the last edit covers all blocks of the longer chunk that are new or longer than before. */
static bool new_end_is_edited(const struct chunk_patch *p, const struct chunk *old)
{
	const struct chunk_edit *last = &p->edit[p->nedits - 1];
	return last->run.first <= old->nbytes / old->blocksize &&
	       last->run.first + last->run.n == p->chunk->nblocks;
}

bool chunk_can_append(const struct chunk *c, uint32_t nbytes)
{
	if (c->kind != CHUNK_REGULAR || c->is_vl || c->nblocks != 1 || c->typesize > 1)
		return false;
	const struct codec *codec = codec_by_id(c->codec);
	return codec->append && filters_are_none(c->filter) && c->cbytes < CHUNK_HEAD + c->nbytes &&
	       nbytes > c->nbytes && nbytes - c->nbytes <= codec_append_most(c->cbytes);
}

static int lengthen(struct scratch *s, const struct chunk_patch *p, struct buf *out)
{
	const struct chunk *old = p->chunk;
	if (old->kind != CHUNK_REGULAR || old->is_vl)
		return 1;
	if (old->nblocks < 2 ? !p->kept || !chunk_can_append(old, p->nbytes) : is_plain(old))
		return 1;
	/* The arrays have entries for the old blocks only: those of new blocks are not read. */
	struct chunk longer = chunk_longer(old, p->nbytes);
	struct chunk_patch q = *p;
	q.chunk = &longer;
	check_edits(&q);
	assert(new_end_is_edited(&q, old));
	return patch(s, &q, old, out);
}

int chunk_patch(struct scratch *s, const struct chunk_patch *p, struct buf *out)
{
	if (p->nbytes > p->chunk->nbytes)
		return lengthen(s, p, out);
	check_edits(p);
	if (p->chunk->kind != CHUNK_STORED)
		return patch(s, p, NULL, out);
	return p->chunk->common ? patch_stored(p, out) : 1; /* since its header is copied */
}

struct chunk chunk_longer(const struct chunk *c, uint32_t nbytes)
{
	struct chunk longer = *c;
	assert(c->nblocks > 0 && nbytes >= c->nbytes);
	longer.nbytes = nbytes;
	if (c->nblocks == 1)
		longer.blocksize = nbytes;
	longer.nblocks = (uint32_t)ceil_div(nbytes, longer.blocksize);
	return longer;
}
