/*
 * Parses header, block offsets and dictionary of a chunk, and validates them once. Untrusted
 * numbers are computed with in 64 bits; what ends up in struct chunk can be relied on.
 */
#include "codec/block_sums.h"
#include "codec/chunk_impl.h"

#include <stdlib.h>

struct header {
	uint8_t flags, flags2, blosc2_flags, udcodec;
	uint32_t blocksize; /* as stored */
	struct view head;   /* clipped to the chunk's own bytes */
};

int chunk_sizes(struct view head, uint32_t *nbytes, uint32_t *cbytes)
{
	if (head.n < CHUNK_HEAD_MIN)
		return CORRUPT("chunk is shorter than a header", head.n);
	*nbytes = get_le32(head.p + AT_NBYTES);
	*cbytes = get_le32(head.p + AT_CBYTES);
	if (*nbytes > CHUNK_MAX_NBYTES)
		return CORRUPT("decoded size of chunk", *nbytes);
	if (*cbytes < CHUNK_HEAD_MIN || *cbytes > INT32_MAX)
		return CORRUPT("stored size of chunk", *cbytes);
	return 0;
}

struct chunk_traits chunk_traits(const uint8_t head[static CHUNK_HEAD])
{
	bool extended = (head[AT_FLAGS] & FLAG_EXTENDED) == FLAG_EXTENDED;
	return (struct chunk_traits){.typesize = head[AT_TYPESIZE],
				     .blocksize = get_le32(head + AT_BLOCKSIZE),
				     .vl_blocks = extended && (head[AT_FLAGS2] & FLAG2_VL)};
}

static void read_filters(struct chunk *c, const struct header *h)
{
	if (c->head_len == CHUNK_HEAD) {
		memcpy(c->filter, h->head.p + AT_FILTERS, FILTER_SLOTS);
		memcpy(c->meta, h->head.p + AT_METAS, FILTER_SLOTS);
		if (c->version == VERSION_ALPHA) /* alphas left garbage there */
			c->filter[5] = c->meta[5] = 0;
		return;
	}
	if (h->flags & FLAG_SHUFFLE)
		c->filter[5] = FILTER_SHUFFLE;
	if (h->flags & FLAG_BITSHUFFLE)
		c->filter[5] = FILTER_BITSHUFFLE;
	if (h->flags & FLAG_DELTA)
		c->filter[4] = FILTER_DELTA;
}

static int read_kind(struct chunk *c, const struct header *h)
{
	unsigned special = h->blosc2_flags >> BLOSC2_SPECIAL_SHIFT & BLOSC2_SPECIAL_MASK;
	bool stored = h->flags & FLAG_STORED;
	if (h->blosc2_flags & BLOSC2_LAZY)
		return CORRUPT("lazy chunk in a file", h->blosc2_flags);
	if (h->blosc2_flags & BLOSC2_INSTRUMENTED)
		return UNSUPPORTED("instrumented chunk", h->blosc2_flags);
	if (special > CHUNK_UNINIT - CHUNK_ZEROS + 1)
		return CORRUPT("special value of unknown kind", special);
	if (c->is_vl && (stored || special || !c->nbytes))
		return CORRUPT("variable-length blocks in a stored, special or empty chunk",
			       h->flags);
	/* The reference marks an empty chunk so, where a dictionary was asked for. */
	if (special && stored && c->nbytes)
		return CORRUPT("chunk both stored and special", special);
	if (special)
		c->kind = CHUNK_ZEROS + special - 1;
	else /* an empty chunk has no blocks, whatever its flags say */
		c->kind = stored || !c->nbytes ? CHUNK_STORED : CHUNK_REGULAR;
	return 0;
}

/* Reads the first 16 or 32 bytes. > 0: more are needed. */
static int read_header(struct chunk *c, struct header *h, uint64_t room)
{
	if (h->head.n < CHUNK_HEAD_MIN)
		return room < CHUNK_HEAD_MIN ? CORRUPT("no room for a chunk", room)
					     : CHUNK_HEAD_MIN;
	TRY(chunk_sizes(h->head, &c->nbytes, &c->cbytes));
	const uint8_t *p = h->head.p;
	if (c->cbytes > room)
		return CORRUPT("chunk ends past its container", c->cbytes);
	c->version = p[AT_VERSION];
	h->flags = p[AT_FLAGS];
	c->typesize = p[AT_TYPESIZE];
	h->blocksize = get_le32(p + AT_BLOCKSIZE);
	if (!c->typesize)
		return CORRUPT("typesize of chunk", 0);
	if (!h->blocksize || h->blocksize > CHUNK_MAX_BLOCKSIZE)
		return CORRUPT("blocksize of chunk", h->blocksize);
	bool extended = (h->flags & FLAG_EXTENDED) == FLAG_EXTENDED;
	c->head_len = extended ? CHUNK_HEAD : CHUNK_HEAD_MIN;
	if (c->cbytes < c->head_len)
		return CORRUPT("chunk is shorter than its header", c->cbytes);
	h->head.n = min_u64(h->head.n, c->cbytes);
	if (h->head.n < c->head_len)
		return (int)c->head_len;
	if (extended) {
		h->udcodec = p[AT_UDCODEC];
		h->flags2 = p[AT_FLAGS2];
		h->blosc2_flags = p[AT_BLOSC2_FLAGS];
	}
	/*
	 * Bits not defined yet may change the meaning of the bytes. Betas left them uninitialised.
	 */
	if (c->version >= VERSION_NOW && (h->flags2 & ~FLAG2_VL))
		return UNSUPPORTED("chunk of a later format", h->flags2);
	c->is_vl = h->flags2 & FLAG2_VL;
	read_filters(c, h);
	return read_kind(c, h);
}

static void read_blocking(struct chunk *c, const struct header *h)
{
	c->blocksize = h->blocksize;
	if (c->is_vl) {
		c->nblocks = h->blocksize;
		return;
	}
	if (c->nbytes && c->blocksize > c->nbytes)
		c->blocksize = c->nbytes;
	/*
	 * Release 3 wrote the size before rounding; its blocks have the rounded size (FORMAT.md
	 * 2.5).
	 */
	bool rounded = c->kind == CHUNK_REGULAR || c->kind == CHUNK_STORED;
	if (rounded && c->blocksize > c->typesize)
		c->blocksize -= c->blocksize % c->typesize;
	c->nblocks = (uint32_t)ceil_div(c->nbytes, c->blocksize);
}

static int judge_stored(const struct chunk *c)
{
	uint32_t payload = c->cbytes - c->head_len;
	if (payload != c->nbytes && c->nbytes)
		return CORRUPT("stored chunk of another size", c->cbytes);
	return 0;
}

/* NaN and uninitialised chunks must have whole items: FORMAT.md 3.6. */
static int judge_whole_items(const struct chunk *c)
{
	if (c->nbytes % c->typesize)
		return CORRUPT("special chunk ends inside an item", c->nbytes);
	return 0;
}

/* Each block must start with a whole item, since any run of blocks may be decoded. */
static int judge_repeated(const struct chunk *c, uint32_t item)
{
	if (c->nblocks > 1 && c->blocksize % item)
		return CORRUPT("repeated value does not divide the block", c->blocksize);
	return 0;
}

static int judge_nan(struct chunk *c)
{
	static const uint8_t nan4[4] = {0, 0, 0xC0, 0x7F};
	static const uint8_t nan8[8] = {0, 0, 0, 0, 0, 0, 0xF8, 0x7F};
	TRY(judge_whole_items(c));
	if (c->typesize != 4 && c->typesize != 8)
		return CORRUPT("NaN of another size than 4 or 8", c->typesize);
	TRY(judge_repeated(c, c->typesize));
	return buf_append(&c->value, c->typesize == 4 ? view_of(nan4, 4) : view_of(nan8, 8));
}

/* The item is the whole payload, whatever the typesize. > 0: more bytes are needed. */
static int judge_value(struct chunk *c, const struct header *h)
{
	uint32_t item = c->cbytes - c->head_len;
	if (!item || item > c->nbytes || c->nbytes % item)
		return CORRUPT("repeated value does not divide the chunk", item);
	TRY(judge_repeated(c, item));
	if (h->head.n < c->cbytes)
		return (int)c->cbytes;
	return buf_append(&c->value, view_part(h->head, c->head_len, item));
}

/* c-blosc before 1.11 had no flag for blocks that are not split: a rule decides (FORMAT.md 3.3). */
#define OLD_SPLIT_TYPESIZE_MAX 16
#define OLD_SPLIT_ITEMS_MIN 128

static bool unsplit_by_rule(const struct chunk *c)
{
	return c->head_len == CHUNK_HEAD_MIN && c->version <= VERSION_BLOSC1 &&
	       (c->typesize > OLD_SPLIT_TYPESIZE_MAX ||
		c->blocksize / c->typesize < OLD_SPLIT_ITEMS_MIN);
}

static int judge_codec(struct chunk *c, const struct header *h)
{
	unsigned format = h->flags >> FLAG_FORMAT_SHIFT;
	const struct codec *codec = codec_by_format(format);
	if (!codec)
		return codec_refuse(format, h->udcodec);
	c->codec = codec->id;
	/* Other codecs ignore a dictionary, though it takes up space. */
	c->has_dict = (h->blosc2_flags & BLOSC2_DICT) && codec->dict_make;
	c->split = !(h->flags & FLAG_NO_SPLIT) && !c->is_vl && !unsplit_by_rule(c);
	if (c->split && c->blocksize % c->typesize)
		return CORRUPT("split blocks smaller than an item", c->blocksize);
	return 0;
}

static bool is_bytedelta(uint8_t id)
{
	return id == FILTER_BYTEDELTA || id == FILTER_BYTEDELTA_OLD;
}

static int judge_filters(struct chunk *c, uint32_t item)
{
	unsigned deltas = 0;
	for (unsigned i = 0; i < FILTER_SLOTS; i++) {
		uint8_t id = c->filter[i];
		if (id == FILTER_NONE)
			continue;
		if (!filter_by_id(id))
			return filter_refuse(id);
		c->param[i] = c->meta[i];
		if (is_bytedelta(id) && !c->param[i])
			c->param[i] = item;
		if (is_bytedelta(id) && !c->param[i])
			return CORRUPT("bytedelta without a number of channels", 0);
		if (id == FILTER_DELTA && ++deltas > 1)
			return CORRUPT("more than one delta filter", deltas);
	}
	return 0;
}

/* The end of the block offsets. */
static uint64_t bstarts_end(const struct chunk *c)
{
	return c->head_len + (uint64_t)CHUNK_BSTART * c->nblocks;
}

/* The stored offset of block i, not validated. */
static uint32_t bstart_at(const struct chunk *c, const struct header *h, uint32_t i)
{
	return get_le32(h->head.p + c->head_len + (uint64_t)CHUNK_BSTART * i);
}

/*
 * *body: the end of what precedes the blocks, all of which is visible if the result is 0. > 0: more
 * bytes are needed.
 */
static int find_body(struct chunk *c, const struct header *h, uint64_t *body)
{
	uint64_t at = bstarts_end(c);
	if (at > c->cbytes)
		return CORRUPT("more blocks than the chunk has room for", c->nblocks);
	if (h->head.n < at)
		return (int)at;
	*body = at;
	if (!(h->blosc2_flags & BLOSC2_DICT))
		return 0;
	uint64_t begin = at + CHUNK_DICT_SIZE;
	if (begin > c->cbytes)
		return CORRUPT("no room for a dictionary", at);
	if (h->head.n < begin)
		return (int)begin;
	uint32_t size = get_le32(h->head.p + at);
	if (!size || size > DICT_MAX || begin + size > c->cbytes)
		return CORRUPT("size of dictionary", size);
	*body = begin + size;
	return h->head.n < *body ? (int)*body : 0;
}

/* Finds out where variable-length blocks begin and end. > 0: more bytes are needed. */
static int judge_vl(struct chunk *c, const struct header *h, uint64_t body)
{
	uint64_t last = bstart_at(c, h, c->nblocks - 1);
	if (last + CHUNK_VL_SIZE > c->cbytes)
		return CORRUPT("block begins past the end of the chunk", last);
	if (h->head.n < last + CHUNK_VL_SIZE)
		return (int)last + CHUNK_VL_SIZE;
	c->vl_start = mem_zalloc_array((size_t)c->nblocks + 1, sizeof *c->vl_start);
	if (!c->vl_start)
		return -ENOMEM;
	uint64_t sum = 0, before = body;
	for (uint32_t i = 0; i < c->nblocks; i++) {
		uint64_t at = bstart_at(c, h, i);
		if (at < before || at > last)
			return CORRUPT("variable-length blocks overlap", at);
		before = at + CHUNK_VL_SIZE + 1; /* its payload has at least one byte */
		sum += get_le32(h->head.p + at);
		if (sum == c->vl_start[i] || sum > c->nbytes)
			return CORRUPT("size of variable-length block", sum);
		c->vl_start[i + 1] = (uint32_t)sum;
	}
	if (before > c->cbytes || sum != c->nbytes)
		return CORRUPT("variable-length blocks do not add up", sum);
	return 0;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* The least element of sorted[0 .. n) greater than x, or `end`. */
static uint32_t next_above(const uint32_t *sorted, uint32_t n, uint32_t x, uint32_t end)
{
	uint32_t lo = 0, hi = n;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (sorted[mid] > x)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo < n ? sorted[lo] : end;
}

/*
 * A block ends where the next one in the file begins. But multi-threaded writers leave blocks in
 * any order, and gaps are legal, so an end is clipped to the longest streams that the block can
 * have. Writers need no more than the block's bytes and a csize word for each of up to typesize
 * streams; the limit is twice that plus END_SPARE bytes, since payloads longer than what they
 * decode to are legal, too, most likely for a few bytes.
 */
#define END_SPARE 64u

static void clip_ends(struct chunk *c)
{
	const uint32_t last = c->nblocks - 1, last_len = chunk_block_bytes(c, last).len;
	for (uint32_t i = 0; i < c->nblocks; i++) {
		uint64_t len = i < last ? c->blocksize : last_len;
		uint64_t usual = len + (uint64_t)STREAM_CSIZE * c->typesize;
		c->bend[i] = (uint32_t)min_u64(c->bend[i], c->bstart[i] + 2 * usual + END_SPARE);
	}
}

/* Sets the ends of blocks that are stored in their order. */
static void set_ends(struct chunk *c)
{
	uint32_t last = c->nblocks - 1;
	for (uint32_t i = 0; i < last; i++)
		c->bend[i] = c->bstart[i + 1];
	c->bend[last] = c->cbytes;
}

/* The same for any order. */
static int search_ends(struct chunk *c)
{
	uint32_t n = c->nblocks, *sorted = mem_zalloc_array(n, sizeof *sorted);
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, c->bstart, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, compare_u32);
	for (uint32_t i = 0; i < n; i++)
		c->bend[i] = next_above(sorted, n, c->bstart[i], c->cbytes);
	mem_free(sorted);
	return 0;
}

/* > 0: more bytes are needed. */
static int read_offsets(struct chunk *c, const struct header *h, uint64_t body)
{
	c->bstart = mem_zalloc_array(c->nblocks, sizeof *c->bstart);
	c->bend = mem_zalloc_array(c->nblocks, sizeof *c->bend);
	if (!c->bstart || !c->bend)
		return -ENOMEM;
	bool in_order = true;
	for (uint32_t i = 0; i < c->nblocks; i++) {
		uint32_t at = bstart_at(c, h, i);
		if (at < body || (uint64_t)at + STREAM_CSIZE > c->cbytes)
			return CORRUPT("block begins outside the chunk", at);
		c->bstart[i] = at;
		in_order = in_order && (!i || at > c->bstart[i - 1]);
	}
	if (in_order)
		set_ends(c);
	else
		TRY(search_ends(c));
	if (!c->is_vl)
		clip_ends(c);
	return in_order && c->head_len == CHUNK_HEAD ? block_sums_load(c, h->head, body) : 0;
}

static int read_dict(struct chunk *c, const struct header *h)
{
	uint64_t at = bstarts_end(c);
	uint32_t size = get_le32(h->head.p + at);
	TRY(buf_append(&c->dict, view_part(h->head, at + CHUNK_DICT_SIZE, size)));
	const struct codec *codec = codec_by_id(c->codec);
	return codec->digest_new ? codec->digest_new(&c->ddict, buf_view(&c->dict)) : 0;
}

/* Validates a regular chunk. > 0: more bytes are needed. */
static int judge_regular(struct chunk *c, const struct header *h, uint32_t item)
{
	uint64_t body = 0;
	TRY(judge_codec(c, h));
	TRY(judge_filters(c, item));
	int need = find_body(c, h, &body);
	if (!need && c->is_vl)
		need = judge_vl(c, h, body);
	if (!need)
		need = read_offsets(c, h, body);
	if (!need && c->has_dict)
		need = read_dict(c, h);
	return need;
}

/* Validates what follows the header, by the kind of the chunk. > 0: more bytes are needed. */
static int judge_body(struct chunk *c, const struct header *h, uint32_t item)
{
	switch (c->kind) {
	case CHUNK_REGULAR: return judge_regular(c, h, item);
	case CHUNK_STORED: return judge_stored(c);
	case CHUNK_NAN: return judge_nan(c);
	case CHUNK_VALUE: return judge_value(c, h);
	case CHUNK_UNINIT: return judge_whole_items(c);
	case CHUNK_ZEROS: break; /* of any length */
	}
	return 0;
}

/*
 * Other readers reject the kinds that belong in the index (FORMAT.md 9.3), a dictionary flag
 * without a dictionary (3.5), a wrong block size (2.5), or some of what older versions wrote (8).
 */
static bool is_common(const struct chunk *c, const struct header *h)
{
	bool has_place = c->kind == CHUNK_REGULAR || c->kind == CHUNK_STORED ||
			 c->kind == CHUNK_VALUE;
	bool says_dict = h->blosc2_flags & BLOSC2_DICT;
	return has_place && c->version == VERSION_NOW && c->head_len == CHUNK_HEAD && !c->is_vl &&
	       says_dict == c->has_dict && c->blocksize == min_u64(h->blocksize, c->nbytes);
}

int chunk_parse(struct chunk *c, struct view head, uint64_t room, uint32_t item)
{
	struct header h = {.head = head};
	chunk_deinit(c); /* left by an earlier call with fewer bytes */
	int need = read_header(c, &h, room);
	if (need)
		return need;
	read_blocking(c, &h);
	need = judge_body(c, &h, item);
	c->common = is_common(c, &h);
	return need;
}

size_t chunk_head_guess(uint32_t nblocks)
{
	return bstart_place(nblocks) + block_sums_len(nblocks);
}

void chunk_deinit(struct chunk *c)
{
	const struct codec *codec = codec_by_id(c->codec);
	if (c->ddict)
		codec->digest_free(c->ddict);
	mem_free(c->bstart);
	mem_free(c->bend);
	mem_free(c->sums);
	mem_free(c->vl_start);
	buf_free(&c->dict);
	buf_free(&c->value);
	buf_free(&c->ref);
	*c = (struct chunk){0};
}

/* The size of zstd's digest, without the bytes of the dictionary, which it copies. */
#define DIGEST_BYTES (28u << 10)

size_t chunk_footprint(const struct chunk *c)
{
	size_t n = sizeof *c + c->dict.cap + c->value.cap + c->ref.cap;
	if (c->bstart)
		n += (size_t)c->nblocks * (sizeof *c->bstart + sizeof *c->bend);
	if (c->sums)
		n += c->nblocks * sizeof *c->sums;
	if (c->vl_start)
		n += ((size_t)c->nblocks + 1) * sizeof *c->vl_start;
	if (c->ddict)
		n += DIGEST_BYTES + c->dict.n;
	return n;
}
