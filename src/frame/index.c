/*
 * The index <-> the chunk that contains it. Decoded, it may be 2 GB, so it is read a few blocks at
 * a time, straight into pages.
 */
#include "frame/index.h"

#include "codec/codec.h"
#include "codec/filter.h"
#include "frame/held.h"

#include <assert.h>

#define ENTRY_BYTES 8u
#define BLOCK_SIZE 16384u /* decoded bytes of a block, in chunks that we write */

/*
 * A block is decoded as a whole, so its size needs a limit. No writer makes larger blocks for an
 * index.
 */
#define BLOCK_LIMIT (4u << 20)

#define STEP (256u << 10) /* decoded bytes per read, about */
#define STORED_LIMIT 16u  /* up to this many entries compression is not worth its time */
#define ZSTD_FROM 2048u   /* from this many entries on, zstd is clearly smaller than BloscLZ */

uint32_t index_next_stored(const struct numbers *ix, uint32_t i)
{
	return numbers_find(ix, i, entry_is_stored);
}

uint32_t index_count_stored(const struct numbers *ix)
{
	uint32_t count = 0;
	struct numbers_run r;
	for (uint32_t i = 0; i < ix->n; i += r.n) {
		r = numbers_run(ix, i);
		if (!r.slot)
			count += entry_is_stored(r.same) ? r.n : 0;
		for (uint32_t k = 0; r.slot && k < r.n; k++)
			count += entry_is_stored(r.slot[k]);
	}
	return count;
}

struct loader {
	struct numbers *ix;
	struct index_rule rule;
	uint32_t at; /* next entry */
};

static int judge(const struct index_rule *rule, uint64_t raw, uint64_t *entry)
{
	if (entry_is_stored(raw)) {
		if (raw > rule->last)
			return CORRUPT("chunk lies outside the chunk area", raw);
		*entry = raw;
		return 0;
	}
	unsigned kind = ENTRY_KIND(raw);
	bool known = kind == ENTRY_KIND_ZEROS || kind == ENTRY_KIND_NAN ||
		     kind == ENTRY_KIND_UNINIT;
	if (!rule->special || !known)
		return CORRUPT("special value in the index", kind);
	*entry = ENTRY_OF_KIND(kind);
	return 0;
}

static int load_entry(struct loader *l, const uint8_t *p)
{
	struct numbers *ix = l->ix;
	struct numbers_page *pg = &ix->page[l->at / NUMBERS_PAGE];
	uint64_t entry = 0;
	TRY(judge(&l->rule, get_le64(p), &entry));
	if (l->at % NUMBERS_PAGE == 0 && !pg->slot)
		pg->same = entry;
	if (!numbers_set(ix, l->at, entry))
		return -ENOMEM;
	l->at++;
	return 0;
}

/* Loads entries of one page. Once that is unfolded, most of them are just copied. */
static int load_run(struct loader *l, const uint8_t *p, uint32_t n)
{
	const struct numbers_page *pg = &l->ix->page[l->at / NUMBERS_PAGE];
	uint32_t i = 0;
	for (; i < n && !pg->slot; i++)
		TRY(load_entry(l, p + ENTRY_BYTES * i));
	for (; i < n; i++, l->at++) {
		uint64_t entry = get_le64(p + ENTRY_BYTES * i);
		if (!entry_is_stored(entry) || entry > l->rule.last)
			TRY(judge(&l->rule, entry, &entry));
		pg->slot[l->at % NUMBERS_PAGE] = entry;
	}
	return 0;
}

static int load_bytes(struct loader *l, struct view v)
{
	assert(v.n % ENTRY_BYTES == 0);
	while (v.n) {
		uint32_t here = NUMBERS_PAGE - l->at % NUMBERS_PAGE;
		uint32_t n = (uint32_t)min_u64(v.n / ENTRY_BYTES, here);
		TRY(load_run(l, v.p, n));
		v = view_from(v, n * ENTRY_BYTES);
	}
	return 0;
}

static int load_blocks(struct loader *l, const struct stored *at, const struct chunk *c,
		       struct scratch *s, struct buf *out)
{
	if (c->blocksize > BLOCK_LIMIT)
		return UNSUPPORTED("block size of the index", c->blocksize);
	if (c->nbytes > l->rule.most)
		return UNSUPPORTED("decoded size of the index", c->nbytes);
	uint32_t step = c->blocksize < STEP ? STEP / c->blocksize : 1;
	while (step * c->blocksize % ENTRY_BYTES) /* only if they are shorter than an entry */
		step--;
	assert(step > 0);
	for (uint32_t b = 0; b < c->nblocks; b += step) {
		struct run run = {b, (uint32_t)min_u64(step, c->nblocks - b)};
		uint32_t n = chunk_run_bytes(c, run);
		TRY(scratch_ask(s, n));
		TRY(buf_reserve_fresh(out, n));
		TRY(stored_read(at, c, run, s, span_of(out->p, n)));
		TRY(load_bytes(l, view_of(out->p, n)));
	}
	return 0;
}

/* A plain copy may be one huge block: any part of it can be read. */
static int load_plain(struct loader *l, const struct stored *at, const struct chunk *c,
		      struct buf *out)
{
	TRY(buf_reserve_fresh(out, min_u64(STEP, c->nbytes)));
	for (uint32_t pos = 0; pos < c->nbytes; pos += STEP) {
		uint32_t n = (uint32_t)min_u64(STEP, c->nbytes - pos);
		TRY(io_pread(at->io, at->at + c->head_len + pos, span_of(out->p, n)));
		TRY(load_bytes(l, view_of(out->p, n)));
	}
	return 0;
}

/* All entries are the same number: nothing to decode. */
static int load_same(struct loader *l, const uint8_t raw[ENTRY_BYTES])
{
	struct numbers *ix = l->ix;
	uint64_t entry = 0;
	TRY(judge(&l->rule, get_le64(raw), &entry));
	for (uint32_t p = 0; p < ix->npages; p++) {
		struct numbers_page *pg = &ix->page[p];
		pg->same = entry;
		for (uint32_t i = 0; pg->slot && i < pg->cap; i++)
			pg->slot[i] = entry;
	}
	return 0;
}

static int load_value(struct loader *l, const struct chunk *c)
{
	uint8_t raw[ENTRY_BYTES];
	size_t n = c->value.n;
	if (n == 0 || ENTRY_BYTES % n != 0)
		return UNSUPPORTED("item size of an index of one value", n);
	for (size_t i = 0; i < ENTRY_BYTES; i++)
		raw[i] = c->value.p[i % n];
	return load_same(l, raw);
}

static int load_chunk(struct loader *l, const struct stored *at, const struct chunk *c,
		      struct scratch *s)
{
	static const uint8_t zeros[ENTRY_BYTES];
	struct buf out = {0};
	int rc;
	switch (c->kind) {
	case CHUNK_ZEROS:
		return load_same(l, zeros);
	case CHUNK_VALUE:
		return load_value(l, c);
	case CHUNK_STORED:
		rc = load_plain(l, at, c, &out);
		break;
	case CHUNK_REGULAR:
		rc = load_blocks(l, at, c, s, &out);
		break;
	default:
		return CORRUPT("kind of the index chunk", c->kind);
	}
	buf_free(&out);
	return rc;
}

static int judge_shape(const struct chunk *c, uint32_t n)
{
	if (c->typesize != ENTRY_BYTES || c->is_vl)
		return CORRUPT("item size of the index", c->typesize);
	if (c->nbytes % ENTRY_BYTES != 0)
		return CORRUPT("size of the index", c->nbytes);
	if (n != INDEX_ANY && c->nbytes / ENTRY_BYTES != n)
		return CORRUPT("number of entries in the index", c->nbytes / ENTRY_BYTES);
	return 0;
}

int index_load(struct numbers *ix, const struct stored *at, uint32_t n, struct index_rule rule,
	       struct scratch *s)
{
	assert(ix->n == 0 && !ix->page);
	struct chunk c = {0};
	struct loader l = {.ix = ix, .rule = rule};
	int rc = stored_load(at, 0, s, &c);
	if (rc == 0)
		rc = judge_shape(&c, n);
	if (rc == 0)
		rc = numbers_resize(ix, c.nbytes / ENTRY_BYTES);
	if (rc == 0 && ix->n)
		rc = load_chunk(&l, at, &c, s);
	chunk_deinit(&c);
	return rc;
}

/* A chunk of that kind for an index of `nbytes`: a header, then the entry or entries in `raw`. */
static int encode_raw(enum chunk_kind kind, uint32_t nbytes, struct view raw, struct buf *out)
{
	struct chunk_head head = {.kind = kind,
				  .typesize = ENTRY_BYTES,
				  .nbytes = nbytes,
				  .blocksize = (uint32_t)min_u64(nbytes, BLOCK_SIZE),
				  .cbytes = (uint32_t)(CHUNK_HEAD + raw.n)};

	TRY(buf_reserve_fresh(out, head.cbytes));
	chunk_head_put(out->p, &head);
	memcpy(out->p + CHUNK_HEAD, raw.p, raw.n);
	out->n = head.cbytes;
	return 0;
}

static int encode_same(const struct numbers *ix, struct buf *out)
{
	uint8_t entry[ENTRY_BYTES];
	put_le64(entry, ix->page[0].same);
	return encode_raw(CHUNK_VALUE, ix->n * ENTRY_BYTES, view_of(entry, sizeof entry), out);
}

static int encode_packed(struct view raw, struct buf *out)
{
	bool large = raw.n / ENTRY_BYTES >= ZSTD_FROM;
	struct pipeline p = {
		.codec = large ? CODEC_ZSTD : CODEC_BLOSCLZ,
		.level = large ? 1 : 5,
		.filter = {[FILTER_SLOTS - 1] = FILTER_SHUFFLE},
		.split_mode = SPLIT_NEVER,
		.typesize = ENTRY_BYTES,
		.blocksize = BLOCK_SIZE,
		.no_sums = true, /* the root's fingerprint covers it */
	};
	struct scratch *s;
	TRY(scratch_open(&s));
	int rc = chunk_encode(s, &p, raw, out);
	scratch_close(s);
	return rc;
}

/* Folds the pages whose entries are all equal. */
static void fold_pages(struct numbers *ix)
{
	struct numbers_run r;
	for (uint32_t i = 0; i < ix->n; i += r.n) {
		r = numbers_run(ix, i);
		uint32_t k = 1;
		while (r.slot && k < r.n && r.slot[k] == r.slot[0])
			k++;
		if (r.slot && k == r.n)
			numbers_fold(ix, &ix->page[i / NUMBERS_PAGE]);
	}
}

static bool index_is_same(const struct numbers *ix)
{
	for (uint32_t i = 0; i < ix->npages; i++)
		if (ix->page[i].slot || ix->page[i].same != ix->page[0].same)
			return false;
	return true;
}

static void index_pack(const struct numbers *ix, uint8_t *out)
{
	struct numbers_run r;
	for (uint32_t i = 0; i < ix->n; i += r.n) {
		r = numbers_run(ix, i);
		for (uint32_t k = 0; k < r.n; k++, out += ENTRY_BYTES)
			put_le64(out, r.slot ? r.slot[k] : r.same);
	}
}

static int encode_all(const struct numbers *ix, struct buf *out)
{
	struct buf raw = {0};
	TRY(buf_reserve(&raw, ix->n * ENTRY_BYTES));
	raw.n = ix->n * ENTRY_BYTES;
	index_pack(ix, raw.p);
	int rc = ix->n <= STORED_LIMIT
			 ? encode_raw(CHUNK_STORED, (uint32_t)raw.n, buf_view(&raw), out)
			 : encode_packed(buf_view(&raw), out);
	buf_free(&raw);
	return rc;
}

int index_encode(struct numbers *ix, struct buf *out)
{
	assert(ix->n > 0 && ix->n <= INDEX_MAX_CHUNKS);
	if (ix->n > NUMBERS_SMALL)
		fold_pages(ix);
	if (index_is_same(ix) && !entry_is_stored(ix->page[0].same))
		return encode_same(ix, out);
	held_enter(ix->n * ENTRY_BYTES);
	int rc = encode_all(ix, out);
	held_leave(ix->n * ENTRY_BYTES);
	return rc;
}
