/*
 * What a sample of a stream would take, counted and not written. The sample stands for a stream of
 * full length: tables are charged by the sample's part of it, and the orderly look that few bytes
 * have is made up for.
 */
#include "codec/cuts.h"
#include "codec/entropy.h"
#include "codec/zstd/impl.h"

/* Bits of a tree's description, of a block's header, and of the tables of sequences, about. */
#define TREE_BITS 300
#define BLOCK_BITS 100
#define TABLES_BITS 150

#define STREAM_FULL (64u << 10)

struct counts {
	uint32_t n, most, symbols; /* bytes, of the most frequent one; how many are there */
	uint32_t sum;              /* of count times logarithm, in 1/256                  */
};

static uint32_t times_log(uint32_t n)
{
	return n * entropy_log2_short(n);
}

/* By two tables in turn: samples are short, and more would take longer to add up. */
static struct counts count_bytes(struct view v)
{
	uint16_t part[2][256] = {0};
	struct counts c = {.n = (uint32_t)v.n};
	size_t i = 0;
	for (; i + 8 <= v.n; i += 8) {
		uint64_t x = get_le64(v.p + i);
		for (unsigned k = 0; k < 8; k++)
			part[k & 1][x >> 8 * k & 255]++;
	}
	for (; i < v.n; i++)
		part[0][v.p[i]]++;
	for (unsigned s = 0; s < 256; s++) {
		uint32_t count = (uint32_t)part[0][s] + part[1][s];
		c.sum += times_log(count);
		c.symbols += count > 0;
		c.most = count > c.most ? count : c.most;
	}
	return c;
}

/*
 * Bits of literals. No code is shorter than a bit: what is more frequent than all others together
 * costs more than its entropy.
 */
static uint64_t price_literals(struct view v)
{
	struct counts c = count_bytes(v);
	uint32_t all = times_log(c.n), bits = all > c.sum ? all - c.sum : 0;
	if (c.symbols <= 1)
		return 0;
	if (c.most > c.n - c.most)
		bits += 256 * c.n - (all - times_log(c.most) - times_log(c.n - c.most));
	return bits / 256 + entropy_missed(c.symbols);
}

static uint64_t price_piece(struct zstd_finder *f, struct view v, size_t stream)
{
	uint64_t tree = TREE_BITS * stream / STREAM_FULL, most = 8 * v.n;
	uint64_t bits = price_literals(v), price = min_u64(bits + tree * (bits > 0), most);
	struct zstd_parts parts;
	if (!bits || bits * 256 > ZSTD_NOISE * v.n)
		return price;
	f->bits = (uint32_t)(256 * bits / v.n) | 1;
	zstd_find(f, v, &parts);
	if (!parts.nsequences)
		return price;
	bits = price_literals(parts.literals);
	bits = min_u64(bits + tree * (bits > 0), 8 * parts.literals.n);
	bits += zstd_count_sequences(f->w, parts.nsequences) + TABLES_BITS * stream / STREAM_FULL;
	return min_u64(price, bits);
}

size_t zstd_price(struct zstd_work *w, struct view src, const struct cuts *cuts)
{
	uint32_t pieces = cuts->n > 1 ? cuts->n : 1;
	struct zstd_finder f = {.w = w, .src = src.p, .known = {.rep = FIRST_OFFSETS},
				.near = true, .planes = pieces > 1};
	uint64_t bits = 0;
	memset(w->near, 0, sizeof w->near);
	for (uint32_t i = 0, at = 0; i < pieces; i++) {
		size_t until = pieces > 1 ? cuts_end(cuts, i, src.n) : src.n;
		bits += BLOCK_BITS * src.n / STREAM_FULL;
		bits += price_piece(&f, view_part(src, at, until - at), src.n);
		at = (uint32_t)until;
	}
	return bits / 8;
}
