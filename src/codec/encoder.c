/*
 * The steps of encoding a chunk, FORMAT.md 3.10: how it is divided into blocks, its layout, and how
 * bytes that do not get smaller are stored.
 */
#include "codec/encoder.h"
#include "codec/block_sums.h"
#include "codec/chunk_impl.h"
#include "codec/scratch_impl.h"

#define ENCODE_MIN 32 /* smaller chunks are stored, as the reference does */

/* The default size of blocks, and of streams in a split block: see auto_blocksize. */
#define BLOCK_AUTO (64u << 10)
#define STREAM_AUTO (16u << 10)
#define BLOCK_AUTO_MAX (256u << 10)

/*
 * Stored blocks have at least STORE_BLOCK bytes: 16 KiB, rounded to whole items. Each costs 12
 * bytes (offset, checksum, csize word): 0.07 % of 16 KiB, 0.02 % of the usual 64 KiB.
 */
#define STORE_EVEN (16u << 10)
#define STORE_PRIME 16381u
#define STORE_BLOCK (STORE_EVEN - CHUNK_MAX_TYPESIZE)

/* Rounds down to whole units, but not to 0. */
static uint32_t round_down(uint32_t n, uint32_t unit)
{
	return n > unit ? n - n % unit : n;
}

/* The rule's limits: FORMAT.md 3.3. */
#define SPLIT_TYPESIZE_MAX 16
#define SPLIT_ITEMS_MIN 32
#define SPLIT_ZSTD_LEVEL_MAX 5

/*
 * In the default mode, the rule of the reference, FORMAT.md 3.3, with two exceptions. A codec that
 * cuts streams does not split blocks: cutting is smaller and faster to read. And zlib does: planes
 * of zeros and of noise then cost it nothing, and it encodes a quarter faster. The header of a
 * chunk says whether its blocks are split.
 */
static bool wants_split(const struct pipeline *p, uint32_t typesize, uint32_t blocksize)
{
	if (p->split_mode == SPLIT_NEVER || blocksize < typesize || blocksize % typesize)
		return false;
	if (p->split_mode == SPLIT_ALWAYS)
		return true;
	bool helps = p->codec == CODEC_BLOSCLZ || p->codec == CODEC_LZ4 || p->codec == CODEC_ZLIB ||
		     (p->codec == CODEC_ZSTD && p->level <= SPLIT_ZSTD_LEVEL_MAX && p->use_dict);
	return helps && filters_have(p->filter, FILTER_SHUFFLE) &&
	       typesize <= SPLIT_TYPESIZE_MAX && blocksize / typesize >= SPLIT_ITEMS_MIN;
}

/* Higher levels aim at size: larger blocks compress better, but make random reads slower. */
static uint32_t level_blocksize(uint8_t level)
{
	if (level <= 6)
		return BLOCK_AUTO;
	return level <= 8 ? 2 * BLOCK_AUTO : BLOCK_AUTO_MAX;
}

/*
 * A block is the smallest unit that a reader decodes: small enough for random reads and for the L2
 * cache, large enough for a codec to learn something. A split block consists of several streams,
 * each encoded alone, and is larger so that these do not get too short.
 */
static uint32_t auto_blocksize(const struct pipeline *p, uint32_t typesize)
{
	uint64_t n = level_blocksize(p->level);
	if (wants_split(p, typesize, round_down(BLOCK_AUTO, typesize)))
		n = max_u64(n, (uint64_t)typesize * STREAM_AUTO);
	return (uint32_t)min_u64(n, BLOCK_AUTO_MAX);
}

/*
 * Items too large for the header, or larger than the chunk, are treated as bytes. Blocks still hold
 * whole items if there are any.
 */
static void plan_blocks(struct encoder *e)
{
	const struct pipeline *p = &e->p;
	uint32_t nbytes = (uint32_t)e->src.n;
	bool bytewise = p->typesize > CHUNK_MAX_TYPESIZE || nbytes < p->typesize;
	uint32_t typesize = bytewise ? 1 : p->typesize;
	uint32_t size = p->blocksize ? p->blocksize : auto_blocksize(p, typesize);
	size = (uint32_t)min_u64(size, nbytes);
	e->blocksize = round_down(size, p->typesize);
	e->nblocks = (uint32_t)ceil_div(nbytes, e->blocksize);
	e->split = wants_split(p, typesize, e->blocksize);
	e->plan.typesize = typesize;
}

bool encoder_splits(const struct pipeline *p)
{
	struct encoder e = {.p = *p, .src = {NULL, CHUNK_MAX_NBYTES}};
	plan_blocks(&e);
	return e.split;
}

int encoder_plan(struct encoder *e, struct scratch *s, const struct pipeline *p, struct view src)
{
	*e = (struct encoder){.s = s, .p = *p, .src = src};
	plan_blocks(e);
	e->plan.coder.codec = codec_by_id(p->codec);
	e->plan.coder.level = p->level;
	TRY(scratch_state(s, e->plan.coder.codec, &e->plan.coder.state));
	for (unsigned i = 0; i < FILTER_SLOTS; i++) {
		if (p->filter[i] == FILTER_NONE)
			continue;
		/* A chunk must decode without the super-chunk's typesize. */
		uint8_t meta = p->meta[i];
		if (p->filter[i] == FILTER_BYTEDELTA && !meta)
			meta = (uint8_t)e->plan.typesize;
		e->meta[i] = meta;
		block_add_filter(&e->plan, filter_by_id(p->filter[i]), meta);
	}
	return 0;
}

/* One block decides for all; not the first, which may contain a file header. */
int encoder_plan_cuts(struct encoder *e)
{
	struct block b;
	if (e->p.use_dict || encoder_wants_store(e))
		return 0;
	struct view v = encoder_block(e, e->nblocks / 2, &b);
	return block_plan_cuts(&e->plan, e->s, &b, v);
}

struct view encoder_block(const struct encoder *e, uint32_t i, struct block *b)
{
	size_t at = (size_t)i * e->blocksize;
	struct view v = view_part(e->src, at, min_u64(e->blocksize, e->src.n - at));
	*b = (struct block){.nstreams = e->split && v.n == e->blocksize ? e->plan.typesize : 1};
	if (i)
		b->ref = view_part(e->src, 0, e->blocksize);
	return v;
}

void chunk_head_put(uint8_t out[static CHUNK_HEAD], const struct chunk_head *h)
{
	memset(out, 0, CHUNK_HEAD);
	out[AT_VERSION] = VERSION_NOW;
	out[AT_VERSIONLZ] = 1;
	out[AT_FLAGS] = FLAG_EXTENDED | (h->kind == CHUNK_STORED ? FLAG_STORED : 0);
	out[AT_TYPESIZE] = (uint8_t)h->typesize;
	put_le32(out + AT_NBYTES, h->nbytes);
	put_le32(out + AT_BLOCKSIZE, h->blocksize);
	put_le32(out + AT_CBYTES, h->cbytes);
	if (h->kind >= CHUNK_ZEROS)
		out[AT_BLOSC2_FLAGS] =
			(uint8_t)((h->kind - CHUNK_ZEROS + 1) << BLOSC2_SPECIAL_SHIFT);
}

/* The chunk ends at the present end of `out`. */
static void put_header(const struct encoder *e, enum chunk_kind kind, struct buf *out)
{
	struct chunk_head head = {
		.kind = kind,
		.typesize = e->plan.typesize,
		.nbytes = (uint32_t)e->src.n,
		.blocksize = e->blocksize,
		.cbytes = (uint32_t)out->n,
	};
	chunk_head_put(out->p, &head);
	out->p[AT_UDCODEC] = e->p.codec;
}

/* One byte less than a plain copy. */
static size_t below_copy(const struct encoder *e)
{
	return CHUNK_HEAD + e->src.n - 1;
}

bool encoder_wants_store(const struct encoder *e)
{
	return !e->p.level || e->src.n < ENCODE_MIN || encoder_body(e) >= below_copy(e);
}

size_t encoder_slot(const struct encoder *e)
{
	return e->blocksize + STREAM_CSIZE * (size_t)(e->split ? e->plan.typesize : 1);
}

/* The offset of the table of checksums. */
static size_t table_at(const struct encoder *e)
{
	return bstart_place(e->nblocks) + (e->dict.n ? CHUNK_DICT_SIZE + e->dict.n : 0);
}

/* True: blocks get checksums. */
static bool has_sums(const struct encoder *e)
{
	return !e->p.no_sums && block_sums_len(e->nblocks);
}

size_t encoder_body(const struct encoder *e)
{
	return table_at(e) + (has_sums(e) ? block_sums_len(e->nblocks) : 0);
}

static void store_copy(const struct encoder *e, struct buf *out)
{
	out->n = CHUNK_HEAD + e->src.n;
	put_header(e, CHUNK_STORED, out);
	bytes_copy(out->p + CHUNK_HEAD, e->src.p, e->src.n);
}

/*
 * The block size for stored blocks. A chunk of typesize 1 may be in a file with chunks of items.
 * Then its block size must not be a multiple of the item size, or the reference writes past its
 * buffers (FORMAT.md 18). e->blocksize is not, and the result must not become one. A prime number
 * is no multiple of any. 16 KiB is a multiple only of items that are powers of two; but of those,
 * every power of two above CHUNK_MAX_TYPESIZE is a multiple, too: if e->blocksize is such a power,
 * and not a multiple, neither is 16 KiB.
 */
static uint64_t store_block(const struct encoder *e)
{
	uint64_t size = e->blocksize;
	if (size >= STORE_BLOCK)
		return size;
	if (e->p.typesize > 1)
		return size * ceil_div(STORE_BLOCK, size);
	bool even = size > CHUNK_MAX_TYPESIZE && !(size & (size - 1));
	return even ? STORE_EVEN : STORE_PRIME;
}

/* Plans storing the bytes in blocks. False: store a plain copy. */
static bool plan_store(const struct encoder *e, struct encoder *blocks)
{
	*blocks = (struct encoder){.p = e->p, .src = e->src, .plan = e->plan};
	pipeline_drop_filters(&blocks->p);
	blocks->blocksize = (uint32_t)min_u64(store_block(e), e->src.n);
	blocks->nblocks = (uint32_t)ceil_div(e->src.n, blocks->blocksize);
	uint64_t len = encoder_body(blocks) + e->src.n + STREAM_CSIZE * (uint64_t)blocks->nblocks;
	return has_sums(blocks) && len <= INT32_MAX;
}

size_t encoder_store_most(const struct encoder *e)
{
	struct encoder blocks;
	size_t each = plan_store(e, &blocks) ? STREAM_CSIZE : 0;
	return encoder_body(&blocks) + e->src.n + each * blocks.nblocks;
}

static void store_blocks(const struct encoder *e, struct buf *out)
{
	out->n = encoder_body(e);
	for (uint32_t i = 0; i < e->nblocks; i++) {
		struct block b;
		struct view src = encoder_block(e, i, &b);
		uint8_t *to = out->p + out->n;
		size_t n = (size_t)stream_put_plain(src, span_of(to, STREAM_CSIZE + src.n));
		encoder_enter(e, i, encoder_sum(e, view_of(to, n)), out);
		out->n += n;
	}
	encoder_finish(e, out);
}

void encoder_store(const struct encoder *e, struct buf *out)
{
	struct encoder blocks;
	if (plan_store(e, &blocks))
		store_blocks(&blocks, out);
	else
		store_copy(e, out);
}

uint32_t encoder_sum(const struct encoder *e, struct view block)
{
	return has_sums(e) ? block_sums_of(block) : 0;
}

void encoder_enter(const struct encoder *e, uint32_t i, uint32_t sum, struct buf *out)
{
	put_le32(out->p + bstart_place(i), (uint32_t)out->n);
	if (has_sums(e))
		block_sums_put(out->p + table_at(e), i, sum);
}

static void put_dict(const struct encoder *e, uint8_t *chunk)
{
	uint8_t *at = chunk + bstart_place(e->nblocks);
	put_le32(at, (uint32_t)e->dict.n);
	memcpy(at + CHUNK_DICT_SIZE, e->dict.p, e->dict.n);
}

void encoder_finish(const struct encoder *e, struct buf *out)
{
	put_header(e, CHUNK_REGULAR, out);
	out->p[AT_FLAGS] |= (uint8_t)(e->plan.coder.codec->format << FLAG_FORMAT_SHIFT);
	if (!e->split)
		out->p[AT_FLAGS] |= FLAG_NO_SPLIT;
	if (filters_have(e->p.filter, FILTER_DELTA))
		out->p[AT_FLAGS] |= FLAG_DELTA;
	memcpy(out->p + AT_FILTERS, e->p.filter, FILTER_SLOTS);
	memcpy(out->p + AT_METAS, e->meta, FILTER_SLOTS);
	if (e->dict.n) {
		out->p[AT_BLOSC2_FLAGS] = BLOSC2_DICT;
		put_dict(e, out->p);
	}
	if (has_sums(e))
		block_sums_seal(out->p, table_at(e), e->nblocks);
}

/*
 * True: without filters, blocks that the codec could not shrink already have their stored form, and
 * need not be copied and summed again.
 */
static bool stores_as_it_is(const struct encoder *e)
{
	struct encoder blocks;
	return filters_are_none(e->p.filter) && !e->dict.n && !e->split &&
	       plan_store(e, &blocks) && blocks.blocksize == e->blocksize;
}

size_t encoder_most(const struct encoder *e)
{
	return stores_as_it_is(e) ? encoder_store_most(e) : below_copy(e);
}
