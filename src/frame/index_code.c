/*
 * The index <-> the chunk that holds it. Decoded it may be 2 GB, so it is read
 * a few blocks at a time straight into pages.
 */
#include "frame/index.h"

#include <assert.h>

/*
 * A block is decoded at once. No writer makes larger
 * ones for an index, and memory must have a limit.
 */
#define BLOCK_LIMIT (64u << 20)
#define STEP (256u << 10) /* decoded bytes that one read aims at */
#define STORED_LIMIT 16u  /* entries up to which compression cannot gain anything worth its time */
#define ZSTD_FROM 2048u   /* entries from which zstd is clearly smaller than the usual BloscLZ */

struct loader {
	struct index *ix;
	struct index_rule rule;
	uint32_t at;       /* next entry */
	uint8_t carry[8];  /* an entry that lies across two steps */
	uint32_t ncarry;
};

static int judge(const struct index_rule *rule, uint64_t raw, uint64_t *entry)
{
	if (!(raw & ENTRY_SPECIAL)) {
		if (raw > rule->last)
			return CORRUPT("chunk lies outside the chunk area", raw);
		*entry = raw;
		return 0;
	}
	unsigned kind = ENTRY_KIND(raw);
	if (!rule->special || (kind != 1 && kind != 2 && kind != 4))
		return CORRUPT("special value in the index", kind);
	*entry = ENTRY_SPECIAL | (uint64_t)kind << 56; /* the other bits mean nothing */
	return 0;
}

static int load_entry(struct loader *l, const uint8_t *p)
{
	struct index *ix = l->ix;
	struct index_page *pg = &ix->page[l->at / INDEX_PAGE];
	uint64_t entry = 0;
	TRY(judge(&l->rule, get_le64(p), &entry));
	if (l->at % INDEX_PAGE == 0 && !pg->slot)
		pg->same = entry;
	if (!index_set(ix, l->at, entry))
		return -ENOMEM;
	l->at++;
	return 0;
}

/* Entries of one page. As soon as it has memory of its own, they need no more than a look each. */
static int load_run(struct loader *l, const uint8_t *p, uint32_t n)
{
	const struct index_page *pg = &l->ix->page[l->at / INDEX_PAGE];
	uint32_t i = 0;
	for (; i < n && !pg->slot; i++)
		TRY(load_entry(l, p + 8 * i));
	for (; i < n; i++, l->at++) {
		uint64_t entry = get_le64(p + 8 * i);
		if ((entry & ENTRY_SPECIAL) || entry > l->rule.last)
			TRY(judge(&l->rule, entry, &entry));
		pg->slot[l->at % INDEX_PAGE] = entry;
	}
	return 0;
}

static int load_bytes(struct loader *l, struct view v)
{
	while (l->ncarry && v.n) {
		l->carry[l->ncarry++ % 8] = *v.p;
		v = view_part(v, 1, v.n - 1);
		if (l->ncarry == 8) {
			TRY(load_entry(l, l->carry));
			l->ncarry = 0;
		}
	}
	while (v.n >= 8) {
		uint32_t n = (uint32_t)min_u64(v.n / 8, INDEX_PAGE - l->at % INDEX_PAGE);
		TRY(load_run(l, v.p, n));
		v = view_part(v, n * 8, v.n - n * 8);
	}
	if (v.n) {
		memcpy(l->carry, v.p, v.n);
		l->ncarry = (uint32_t)v.n;
	}
	return 0;
}

static int load_blocks(struct loader *l, const struct stored *at, const struct chunk *c,
		       struct scratch *s, struct buf *out)
{
	if (c->blocksize > BLOCK_LIMIT)
		return UNSUPPORTED("block size of the index", c->blocksize);
	uint32_t step = c->blocksize < STEP ? STEP / c->blocksize : 1;
	for (uint32_t b = 0; b < c->nblocks; b += step) {
		struct run run = {b, (uint32_t)min_u64(step, c->nblocks - b)};
		uint32_t n = chunk_run_bytes(c, run);
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

/* All entries are one number: no bytes to decode. */
static int load_same(struct loader *l, const uint8_t raw[8])
{
	struct index *ix = l->ix;
	uint64_t entry = 0;
	TRY(judge(&l->rule, get_le64(raw), &entry));
	for (uint32_t p = 0; p < ix->npages; p++) {
		struct index_page *pg = &ix->page[p];
		pg->same = entry;
		for (uint32_t i = 0; pg->slot && i < pg->cap; i++)
			pg->slot[i] = entry;
	}
	return 0;
}

static int load_value(struct loader *l, const struct chunk *c)
{
	uint8_t raw[8];
	size_t n = c->value.n;
	if (n == 0 || 8 % n != 0)
		return UNSUPPORTED("item size of an index of one value", n);
	for (size_t i = 0; i < 8; i++)
		raw[i] = c->value.p[i % n];
	return load_same(l, raw);
}

static int load_chunk(struct loader *l, const struct stored *at, const struct chunk *c,
		      struct scratch *s)
{
	static const uint8_t zeros[8];
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
	if (c->typesize != 8 || c->is_vl)
		return CORRUPT("item size of the index", c->typesize);
	if (c->nbytes % 8 != 0 || c->nbytes / 8 > INDEX_MAX_CHUNKS)
		return CORRUPT("size of the index", c->nbytes);
	if (n != INDEX_ANY && c->nbytes / 8 != n)
		return CORRUPT("number of entries in the index", c->nbytes / 8);
	return 0;
}

int index_load(struct index *ix, const struct stored *at, uint32_t n, struct index_rule rule,
	       struct scratch *s)
{
	assert(ix->n == 0 && !ix->page);
	struct chunk c = {0};
	struct loader l = {.ix = ix, .rule = rule};
	int rc = stored_load(at, 0, s, &c);
	if (rc == 0)
		rc = judge_shape(&c, n);
	if (rc == 0)
		rc = index_resize(ix, c.nbytes / 8);
	if (rc == 0 && ix->n)
		rc = load_chunk(&l, at, &c, s);
	chunk_deinit(&c);
	return rc;
}

static void put_head(uint8_t *p, uint8_t flags, uint32_t nbytes, uint32_t cbytes)
{
	memset(p, 0, CHUNK_HEAD);
	p[0] = 5;
	p[1] = 1;
	p[2] = flags;
	p[3] = 8;
	put_le32(p + 4, nbytes);
	put_le32(p + 8, (uint32_t)min_u64(nbytes, 16384));
	put_le32(p + 12, cbytes);
}

static int encode_same(const struct index *ix, struct buf *out)
{
	TRY(buf_reserve_fresh(out, CHUNK_HEAD + 8));
	put_head(out->p, 0x05, ix->n * 8, CHUNK_HEAD + 8);
	out->p[31] = 3 << 4;
	put_le64(out->p + CHUNK_HEAD, ix->page[0].same);
	out->n = CHUNK_HEAD + 8;
	return 0;
}

static int encode_plain(struct view raw, struct buf *out)
{
	TRY(buf_reserve_fresh(out, CHUNK_HEAD + raw.n));
	put_head(out->p, 0x07, (uint32_t)raw.n, (uint32_t)(CHUNK_HEAD + raw.n));
	memcpy(out->p + CHUNK_HEAD, raw.p, raw.n);
	out->n = CHUNK_HEAD + raw.n;
	return 0;
}

static int encode_packed(struct view raw, struct buf *out)
{
	bool large = raw.n / 8 >= ZSTD_FROM;
	struct pipeline p = {
		.codec = large ? 5 : 0,
		.level = large ? 1 : 5,
		.filter = {0, 0, 0, 0, 0, 1},
		.split_mode = SPLIT_NEVER,
		.typesize = 8,
		.blocksize = 16384,
	};
	struct scratch *s;
	TRY(scratch_open(&s));
	int rc = chunk_encode(s, &p, raw, out);
	scratch_close(s);
	return rc;
}

/* One number again, if all entries of a page are equal. Small indices are left alone. */
static void page_fold(struct index *ix, struct index_page *pg, uint32_t n)
{
	uint32_t i = 1;
	while (i < n && pg->slot[i] == pg->slot[0])
		i++;
	if (i < n || ix->n <= INDEX_SMALL)
		return;
	pg->same = pg->slot[0];
	mem_free(pg->slot);
	pg->slot = NULL;
	ix->nsame++;
}

static bool index_is_same(const struct index *ix)
{
	for (uint32_t i = 0; i < ix->npages; i++)
		if (ix->page[i].slot || ix->page[i].same != ix->page[0].same)
			return false;
	return true;
}

static void index_pack(struct index *ix, uint8_t *out)
{
	for (uint32_t p = 0; p < ix->npages; p++) {
		struct index_page *pg = &ix->page[p];
		uint32_t base = p * INDEX_PAGE;
		uint32_t n = (uint32_t)min_u64(INDEX_PAGE, ix->n - base);
		for (uint32_t i = 0; i < n; i++, out += 8)
			put_le64(out, pg->slot ? pg->slot[i] : pg->same);
	}
}

int index_encode(struct index *ix, struct buf *out)
{
	assert(ix->n > 0 && ix->n <= INDEX_MAX_CHUNKS);
	for (uint32_t p = 0; p < ix->npages; p++)
		if (ix->page[p].slot)
			page_fold(ix, &ix->page[p],
				  (uint32_t)min_u64(INDEX_PAGE, ix->n - p * INDEX_PAGE));
	if (index_is_same(ix) && (ix->page[0].same & ENTRY_SPECIAL))
		return encode_same(ix, out);
	struct buf raw = {0};
	TRY(buf_reserve(&raw, ix->n * 8));
	raw.n = ix->n * 8;
	index_pack(ix, raw.p);
	int rc = ix->n <= STORED_LIMIT ? encode_plain(buf_view(&raw), out)
				       : encode_packed(buf_view(&raw), out);
	buf_free(&raw);
	return rc;
}
