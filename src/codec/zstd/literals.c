/* The literals of a block: raw, one byte repeated, or Huffman codes (RFC 8878, 3.1.1.3.1). */
#include "codec/entropy.h"
#include "codec/price.h"
#include "codec/zstd/codes.h"
#include "codec/zstd/count.h"
#include "codec/zstd/impl.h"

#define ONE_STREAM 256 /* fewer literals go into a single stream: their number fits 10 bits */
#define CODED_MIN 32   /* fewer do not pay for describing a tree                       */

/* How literals are coded. */
struct coding {
	const struct zstd_tree *tree;
	uint64_t bits;           /* in total */
	struct view description; /* of the tree; empty: the last block's is reused */
};

/* Writes four streams, preceded by the lengths of the first three. NULL: they do not fit. */
static uint8_t *put_four(const struct zstd_work *w, const struct zstd_tree *t, struct view v,
			 struct span dst)
{
	uint8_t *from = dst.p + 6, *end[4];
	if (dst.n < 6 || !w->put_codes(t->code, v, span_of(from, dst.n - 6), end))
		return NULL;
	for (unsigned k = 0; k < 3; k++) {
		put_le16(dst.p + 2 * k, (uint16_t)(end[k] - from));
		from = end[k];
	}
	return end[3];
}

/*
 * Headers (3.1.1.3.1.1) begin with two bits of type and two that give the width of the numbers
 * after them. For literals that are not coded, there is only their number: in 5 bits, after a width
 * of one bit, or in 12 or 20.
 */
static uint8_t *put_plain_header(uint8_t *out, unsigned type, size_t n)
{
	if (n < 1 << 5) {
		*out++ = (uint8_t)(type | n << 3);
	} else if (n < 1 << 12) {
		put_le16(out, (uint16_t)(type | 1 << 2 | n << 4));
		out += 2;
	} else {
		put_le16(out, (uint16_t)(type | 3 << 2 | n << 4));
		out[2] = (uint8_t)(n >> 12);
		out += 3;
	}
	return out;
}

static uint8_t *put_raw(struct view v, struct span dst)
{
	if (dst.n < v.n + 3)
		return NULL;
	uint8_t *out = put_plain_header(dst.p, ZSTD_LITERALS_RAW, v.n);
	bytes_copy(out, v.p, v.n);
	return out + v.n;
}

/*
 * The header of coded literals has their number and their stored length, in 10, 14 or 18 bits each.
 */
static unsigned coded_bits(size_t n)
{
	return n < 1 << 10 ? 10 : n < 1 << 14 ? 14 : 18;
}

static unsigned coded_header(size_t n)
{
	return (4 + 2 * coded_bits(n)) / 8;
}

/*
 * With 10 bits, the format also tells whether there are four streams; with more, there always are.
 */
static void put_coded_header(uint8_t *out, const struct coding *c, size_t n, size_t stored)
{
	unsigned bits = coded_bits(n), format = bits == 10 ? n >= ONE_STREAM : bits == 14 ? 2 : 3;
	unsigned type = c->description.n ? ZSTD_LITERALS_COMPRESSED : ZSTD_LITERALS_TREELESS;
	uint64_t header = type | format << 2 | (uint64_t)n << 4 | (uint64_t)stored << (4 + bits);
	for (unsigned i = 0; i < coded_header(n); i++)
		out[i] = (uint8_t)(header >> 8 * i);
}

/* NULL: they save too little, or do not fit. */
static uint8_t *put_coded(const struct zstd_work *w, const struct coding *c, struct view v,
			  struct span dst)
{
	size_t head = coded_header(v.n) + c->description.n, gain = zstd_least_gain(v.n);
	if (c->description.n + (size_t)(c->bits / 8) + gain >= v.n || dst.n < head)
		return NULL;
	memcpy(dst.p + coded_header(v.n), c->description.p, c->description.n);
	struct span room = span_from(dst, head);
	uint8_t *out = v.n < ONE_STREAM ? zstd_put_stream(c->tree->code, v, room)
					: put_four(w, c->tree, v, room);
	if (!out)
		return NULL;
	size_t stored = (size_t)(out - dst.p) - coded_header(v.n);
	if (stored + gain >= v.n)
		return NULL;
	put_coded_header(dst.p, c, v.n, stored);
	return out;
}

static bool all_occur(const uint32_t count[static 256])
{
	uint32_t missing = 0;
	for (unsigned s = 0; s < 256; s++)
		missing |= !count[s];
	return !missing;
}

/*
 * From this many literals on, half of them are counted first. If every byte value occurs in that
 * half, as in noise, there will be a code for whatever the other half contains, which is then not
 * counted: in total that costs about 184 bits, since 255 counts are a little off, and saves half of
 * the counting time.
 */
#define MANY (32u << 10)

static void count_many(struct view v, uint32_t count[static 256])
{
	struct zstd_counts counts;
	counts_clear(&counts, 8);
	size_t half = counts_add_half(&counts, v, 8, false);
	counts_sum(&counts, 8, count);
	if (all_occur(count)) {
		for (unsigned s = 0; s < 256; s++)
			count[s] *= 2;
		return;
	}
	counts_add_half(&counts, v, 8, true);
	counts_add(&counts, view_from(v, 2 * half), 8);
	counts_sum(&counts, 8, count);
}

uint64_t zstd_count_literals(struct zstd_work *w, struct view v)
{
	uint32_t distinct;
	if (v.n < COUNT_LONG)
		count_bytes(v, 4, w->count);
	else if (v.n < MANY)
		count_bytes(v, 8, w->count);
	else
		count_many(v, w->count);
	return entropy_of_many(w->count, 256, &distinct) / 256;
}

#define IMPOSSIBLE UINT64_MAX

/* The total bits of the literals with an older tree. */
static uint64_t bits_with(const struct zstd_tree *t, const uint32_t count[static 256])
{
	uint32_t bits = 0, missing = 0;
	for (unsigned s = 0; s < 256; s++) {
		bits += count[s] * t->len[s];
		missing |= t->len[s] ? 0 : count[s];
	}
	return missing ? IMPOSSIBLE : bits;
}

/*
 * Chooses the cheapest coding; false: none costs less than c->bits. Reusing the last block's tree
 * needs no description, and costs a reader nothing. A new tree cannot beat `least` bits, so it is
 * often not even built.
 */
static bool choose(struct zstd_work *w, const struct zstd_known *k, uint64_t least,
		   uint8_t described[static ZSTD_TREE_MAX], struct coding *c)
{
	const uint64_t plain = c->bits, tree = price_of(TREE_NS);
	uint64_t repeat = k->tree ? bits_with(k->tree, w->count) : IMPOSSIBLE;
	*c = (struct coding){k->tree, repeat, {described, 0}};
	if (repeat <= least + tree)
		return repeat < plain;
	if (least + tree >= plain)
		return false;
	struct zstd_tree *t = &w->tree[k->tree == &w->tree[0]];
	uint64_t bits = zstd_build_tree(t, w->count);
	size_t ndescribed = zstd_put_tree(t, described);
	if (!ndescribed || repeat <= bits + 8 * ndescribed + tree)
		return repeat < plain;
	*c = (struct coding){t, bits, {described, ndescribed}};
	return bits + 8 * ndescribed + tree < plain;
}

uint8_t *zstd_put_literals(struct zstd_work *w, struct zstd_known *k, struct view v, uint64_t bits,
			   struct span dst)
{
	uint8_t described[ZSTD_TREE_MAX], *out = NULL;
	if (v.n < CODED_MIN)
		return put_raw(v, dst);
	if (w->count[v.p[0]] == v.n) {
		if (dst.n < 4)
			return NULL;
		out = put_plain_header(dst.p, ZSTD_LITERALS_RLE, v.n);
		*out = v.p[0];
		return out + 1;
	}
	struct coding c = {.bits = 8 * v.n - price_of(v.n * LITERAL_NS)};
	if (choose(w, k, bits, described, &c))
		out = put_coded(w, &c, v, dst);
	if (!out)
		return put_raw(v, dst);
	k->tree = c.tree;
	return out;
}
