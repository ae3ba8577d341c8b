/*
 * The decoding half of chunk.h: which stored bytes a run of blocks needs, and how they are decoded.
 */
#include "codec/block_sums.h"
#include "codec/chunk_impl.h"
#include "codec/scratch_impl.h"

#include <assert.h>

struct extent chunk_block_bytes(const struct chunk *c, uint32_t block)
{
	assert(block < c->nblocks);
	if (c->is_vl)
		return (struct extent){c->vl_start[block],
				       c->vl_start[block + 1] - c->vl_start[block]};
	/* block < nblocks keeps the product below nbytes */
	uint32_t off = block * c->blocksize;
	return (struct extent){off, (uint32_t)min_u64(c->blocksize, c->nbytes - off)};
}

uint32_t chunk_block_at(const struct chunk *c, uint32_t byte)
{
	assert(byte < c->nbytes);
	if (!c->is_vl)
		return byte / c->blocksize;
	uint32_t lo = 0, hi = c->nblocks;
	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (c->vl_start[mid] <= byte)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static void check_run(const struct chunk *c, struct run run)
{
	assert(run.first <= c->nblocks && run.n <= c->nblocks - run.first);
}

uint32_t chunk_run_bytes(const struct chunk *c, struct run run)
{
	check_run(c, run);
	if (!run.n)
		return 0;
	struct extent last = chunk_block_bytes(c, run.first + run.n - 1);
	return last.off + last.len - chunk_block_bytes(c, run.first).off;
}

struct run chunk_run_of(const struct chunk *c, uint32_t first, uint32_t most)
{
	struct run run = {first, 1};
	while (run.n < c->nblocks - first &&
	       chunk_run_bytes(c, (struct run){first, run.n + 1}) <= most)
		run.n++;
	return run;
}

struct extent chunk_extent(const struct chunk *c, struct run run)
{
	check_run(c, run);
	if (!run.n)
		return (struct extent){0, 0};
	if (c->kind == CHUNK_STORED)
		return (struct extent){c->head_len + chunk_block_bytes(c, run.first).off,
				       chunk_run_bytes(c, run)};
	if (c->kind != CHUNK_REGULAR)
		return (struct extent){0, 0};
	uint32_t lo = c->bstart[run.first], hi = c->bend[run.first];
	for (uint32_t i = run.first + 1; i < run.first + run.n; i++) {
		lo = (uint32_t)min_u64(lo, c->bstart[i]);
		hi = (uint32_t)max_u64(hi, c->bend[i]);
	}
	return (struct extent){lo, hi - lo};
}

bool chunk_run_is_plain(const struct chunk *c, struct run run)
{
	if (!c->sums || c->split || !filters_are_none(c->filter))
		return false;
	for (uint32_t i = run.first; i < run.first + run.n; i++)
		if (c->bend[i] - c->bstart[i] != STREAM_CSIZE + chunk_block_bytes(c, i).len)
			return false;
	return run.n > 0;
}

static bool has_delta(const struct chunk *c)
{
	return filters_have(c->filter, FILTER_DELTA);
}

bool chunk_wants_ref(const struct chunk *c)
{
	/* Variable-length blocks are independent. */
	return c->kind == CHUNK_REGULAR && !c->is_vl && c->nblocks > 1 && has_delta(c);
}

int chunk_load_ref(struct chunk *c, struct scratch *s, struct view stored)
{
	struct run first = {0, 1};
	uint32_t len = chunk_run_bytes(c, first);
	TRY(buf_reserve_fresh(&c->ref, len));
	c->ref.n = 0; /* not valid while it is being decoded */
	TRY(chunk_decode(c, s, first, stored, span_of(c->ref.p, len)));
	c->ref.n = len;
	return 0;
}

/* Fills dst with repeats of the item, starting at an item's first byte. */
static void fill_value(struct view item, struct span dst)
{
	size_t have = min_u64(item.n, dst.n);
	memcpy(dst.p, item.p, have);
	while (have < dst.n) {
		size_t more = min_u64(have, dst.n - have);
		memcpy(dst.p + have, dst.p, more);
		have += more;
	}
}

static void plan_filters(struct block_plan *p, const struct chunk *c)
{
	*p = (struct block_plan){.typesize = c->typesize, .blosc1 = c->version == VERSION_BLOSC1};
	for (unsigned i = 0; i < FILTER_SLOTS; i++)
		if (c->filter[i] != FILTER_NONE)
			block_add_filter(p, filter_by_id(c->filter[i]), c->param[i]);
}

uint64_t chunk_work(const struct chunk *c, struct run run, enum block_form form)
{
	struct block_plan p;
	uint32_t len = c->blocksize;
	if (c->kind != CHUNK_REGULAR || !run.n)
		return 0;
	if (c->is_vl || run.n == 1)
		len = chunk_run_bytes(c, run);
	plan_filters(&p, c);
	return block_work(&p, form, len);
}

int chunk_plan(struct block_plan *p, const struct chunk *c, struct scratch *s)
{
	plan_filters(p, c);
	p->coder.codec = codec_by_id(c->codec);
	return scratch_state(s, p->coder.codec, &p->coder.state);
}

/*
 * Copies in pieces: beyond the size of the caches, one memcpy of megabytes was measured a quarter
 * slower.
 */
static void copy_plain(struct view from, struct span dst)
{
	const size_t piece = 128 << 10;
	for (size_t at = 0; at < dst.n; at += piece)
		bytes_copy(dst.p + at, from.p + at, min_u64(piece, dst.n - at));
}

/* The state for decoding blocks of a chunk. */
struct job {
	const struct chunk *c;
	struct scratch *s;
	struct block_plan plan;
	struct codec_dict dict;
	struct view ref; /* decoded block 0; empty: not needed */
	enum block_form form;
	bool checked;
};

static int decode_vl(struct job *j, struct view stored, struct span dst)
{
	/* This was checked when the chunk was parsed, but these bytes were fetched later. */
	if (get_le32(stored.p) != dst.n)
		return CORRUPT("variable-length block has changed its size", get_le32(stored.p));
	struct block b = {.nstreams = 1, .bare = true};
	struct view payload = view_from(stored, CHUNK_VL_SIZE);
	return block_decode(&j->plan, j->s, &b, payload, dst);
}

static int decode_block(struct job *j, uint32_t i, struct view stored, struct span dst)
{
	const struct chunk *c = j->c;
	if (j->checked)
		TRY(block_sums_check(c, i, stored));
	if (c->is_vl)
		return decode_vl(j, stored, dst);
	bool split = c->split && dst.n == c->blocksize;
	struct block b = {.nstreams = split ? c->typesize : 1, .form = j->form};
	if (i)
		b.ref = j->ref;
	int rc = block_decode(&j->plan, j->s, &b, stored, dst);
	/* Betas did not split blocks if there was a dictionary, but did not record that. */
	if (rc == -EBADMSG && split && c->version == VERSION_BETA && c->has_dict) {
		b.nstreams = 1;
		rc = block_decode(&j->plan, j->s, &b, stored, dst);
	}
	return rc;
}

static int job_init(struct job *j)
{
	const struct chunk *c = j->c;
	TRY(chunk_plan(&j->plan, c, j->s));
	if (c->has_dict) {
		j->dict = (struct codec_dict){buf_view(&c->dict), c->ddict};
		j->plan.coder.dict = &j->dict;
	}
	return 0;
}

static int decode_regular(struct job *j, struct run run, struct view stored, struct span dst)
{
	const struct chunk *c = j->c;
	if (chunk_wants_ref(c)) {
		/* A run from block 0 on contains its own reference. */
		j->ref = run.first ? buf_view(&c->ref) : view_of(dst.p, c->blocksize);
		assert(j->ref.n == c->blocksize);
	}
	uint32_t from = chunk_extent(c, run).off;
	uint32_t start = chunk_block_bytes(c, run.first).off;
	int rc = 0;
	for (uint32_t i = run.first; !rc && i < run.first + run.n; i++) {
		struct extent at = chunk_block_bytes(c, i);
		rc = decode_block(j, i, stored_block(c, i, stored, from),
				  span_of(dst.p + (at.off - start), at.len));
	}
	scratch_done(j->s);
	return rc;
}

void chunk_fill(const struct chunk *c, uint32_t lo, struct span dst)
{
	assert(c->kind != CHUNK_REGULAR && c->kind != CHUNK_STORED);
	if (c->kind != CHUNK_NAN && c->kind != CHUNK_VALUE) {
		memset(dst.p, 0, dst.n);
		return;
	}
	struct view item = buf_view(&c->value);
	size_t at = lo % item.n, first = min_u64(at ? item.n - at : 0, dst.n);
	if (first)
		memcpy(dst.p, item.p + at, first);
	if (dst.n > first)
		fill_value(item, span_from(dst, first));
}

static int decode_other(const struct chunk *c, struct view stored, struct span dst)
{
	if (c->kind == CHUNK_STORED)
		copy_plain(stored, dst);
	else /* a run starts with a whole item (chunk_parse.c) */
		chunk_fill(c, 0, dst);
	return 0;
}

static int decode(struct job *j, struct run run, struct view stored, struct span dst)
{
	assert(stored.n == chunk_extent(j->c, run).len);
	assert(dst.n == chunk_run_bytes(j->c, run));
	if (!dst.n)
		return 0;
	if (j->c->kind != CHUNK_REGULAR)
		return decode_other(j->c, stored, dst);
	TRY(job_init(j));
	return decode_regular(j, run, stored, dst);
}

int chunk_decode(const struct chunk *c, struct scratch *s, struct run run, struct view stored,
		 struct span dst)
{
	struct job j = {.c = c, .s = s};
	return decode(&j, run, stored, dst);
}

int chunk_decode_checked(const struct chunk *c, struct scratch *s, struct run run,
			 struct view stored, struct span dst)
{
	struct job j = {.c = c, .s = s, .checked = true};
	return decode(&j, run, stored, dst);
}

bool chunk_can_pack(const struct chunk *c)
{
	struct block_plan p;
	if (c->kind != CHUNK_REGULAR || c->is_vl || has_delta(c))
		return false;
	plan_filters(&p, c);
	return block_can_pack(&p);
}

int chunk_decode_packed(const struct chunk *c, struct scratch *s, uint32_t block,
			struct view stored, struct span dst)
{
	struct job j = {.c = c, .s = s, .form = BLOCK_PACKED, .checked = true};
	assert(chunk_can_pack(c));
	assert(stored.n == chunk_extent(c, (struct run){block, 1}).len);
	TRY(job_init(&j));
	int rc = decode_block(&j, block, stored, dst);
	scratch_done(s);
	return rc;
}

int chunk_unpack(const struct chunk *c, struct scratch *s, struct view packed, uint32_t lo,
		 struct span dst)
{
	struct block_plan p;
	assert(chunk_can_pack(c));
	plan_filters(&p, c);
	int rc = block_unpack(&p, s, packed, lo, dst);
	scratch_done(s);
	return rc;
}

bool chunk_has_parts(const struct chunk *c, const struct scratch *s)
{
	struct block_plan p;
	if (c->kind != CHUNK_REGULAR || c->is_vl || c->has_dict || !c->sums)
		return false;
	plan_filters(&p, c);
	p.coder.codec = codec_by_id(c->codec);
	return block_has_parts(&p, s, c->split ? c->typesize : 1);
}

int chunk_decode_part(const struct chunk *c, struct scratch *s, struct chunk_part part,
		      struct view stored, struct span dst)
{
	struct job j = {.c = c, .s = s};
	uint32_t whole = chunk_block_bytes(c, part.block).len;
	assert(chunk_has_parts(c, s));
	assert(dst.n <= whole && part.lo <= whole - dst.n);
	assert(stored.n == chunk_extent(c, (struct run){part.block, 1}).len);
	TRY(block_sums_check(c, part.block, stored));
	if (c->split && whole != c->blocksize) /* the last block is a single stream */
		return CHUNK_NO_PART;
	TRY(job_init(&j));
	struct block_part of = {whole, part.lo};
	bool done = block_decode_part(&j.plan, s, stored, of, dst);
	scratch_done(s);
	return done ? 0 : CHUNK_NO_PART;
}

int chunk_decode_all(struct scratch *s, struct view stored, uint32_t item, struct span dst)
{
	struct chunk c = {0};
	int rc = chunk_parse(&c, stored, stored.n, item);
	if (rc > 0) /* cbytes <= stored.n, so everything asked for was there */
		rc = CORRUPT("chunk is cut off", stored.n);
	if (!rc && c.nbytes != dst.n)
		rc = CORRUPT("chunk of another decoded size", c.nbytes);
	if (!rc) {
		struct run all = {0, c.nblocks};
		struct extent e = chunk_extent(&c, all);
		rc = chunk_decode(&c, s, all, view_part(stored, e.off, e.len), dst);
	}
	chunk_deinit(&c);
	return rc;
}
