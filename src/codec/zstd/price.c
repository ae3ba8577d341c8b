/*
 * What a sample of a stream would take: counted, nothing is written. The sample stands for a stream
 * of full length: tables are charged in proportion, and that few bytes look more orderly than many
 * is made up for.
 */
#include "codec/cuts.h"
#include "codec/entropy.h"
#include "codec/price.h"
#include "codec/zstd/count.h"
#include "codec/zstd/impl.h"

#define TABLES_BITS 150 /* about: the descriptions of a block's three tables of sequences */

#define STREAM_FULL (64u << 10)

struct counts {
	uint32_t n, most, symbols; /* bytes; those of the most frequent value; how many values */
	uint32_t sum;              /* of each count times its logarithm, in 1/256              */
};

static uint32_t times_log(uint32_t n)
{
	return n * entropy_log2_short(n);
}

static void count_bytes(struct view v, uint32_t count[static 256])
{
	struct zstd_counts tables;
	counts_clear(&tables, 8);
	counts_add(&tables, v, 8);
	counts_sum(&tables, 8, count);
}

static struct counts sum_up(const uint32_t count[static 256], size_t n)
{
	struct counts c = {.n = (uint32_t)n};
	for (unsigned s = 0; s < 256; s++) {
		c.sum += times_log(count[s]);
		c.symbols += count[s] > 0;
		c.most = count[s] > c.most ? count[s] : c.most;
	}
	return c;
}

/*
 * Bits of literals. No code is shorter than a bit: what is more frequent than all others together
 * costs more than its entropy.
 */
static uint64_t price_literals(const uint32_t count[static 256], size_t n)
{
	struct counts c = sum_up(count, n);
	uint32_t all = times_log(c.n), bits = all > c.sum ? all - c.sum : 0;
	if (c.symbols <= 1)
		return 0;
	if (c.most > c.n - c.most)
		bits += 256 * c.n - (all - times_log(c.most) - times_log(c.n - c.most));
	return bits / 256 + entropy_missed(c.symbols);
}

/* The literals are what is not in matches: the fewer of the two are counted. */
static void count_literals(const struct zstd_finder *f, struct view v,
			   const struct zstd_parts *parts, uint32_t count[static 256])
{
	const uint8_t *at = v.p;
	if (parts->literals.n < v.n - v.n / 4) {
		count_bytes(parts->literals, count);
		return;
	}
	for (size_t i = 0; i < parts->nsequences; i++) {
		const struct zstd_sequence *s = &f->w->sequence[i];
		at += s->literals;
		for (const uint8_t *end = at + s->match + 3; at < end; at++)
			count[*at]--;
	}
}

/* Planes of more bits a byte, in 1/256, are not searched: matches in them are chance. */
#define PLANE_NOISE (256 * 7)

static uint64_t price_piece(struct zstd_finder *f, struct view v, size_t stream)
{
	uint64_t tree = TREE_BITS * stream / STREAM_FULL, most = 8 * v.n;
	uint32_t count[256];
	count_bytes(v, count);
	uint64_t bits = price_literals(count, v.n), price = min_u64(bits + tree * (bits > 0), most);
	struct zstd_parts parts;
	uint64_t noise = f->search == ZSTD_PLANES ? PLANE_NOISE : ZSTD_NOISE;
	if (!bits || bits * 256 > noise * v.n)
		return price;
	f->bits = (uint32_t)(256 * bits / v.n) | 1;
	zstd_find(f, v, &parts);
	if (!parts.nsequences)
		return price;
	count_literals(f, v, &parts, count);
	bits = price_literals(count, parts.literals.n);
	bits = min_u64(bits + tree * (bits > 0), 8 * parts.literals.n);
	bits += zstd_count_sequences(f->w, parts.nsequences) + TABLES_BITS * stream / STREAM_FULL;
	return min_u64(price, bits);
}

size_t zstd_price(struct zstd_work *w, struct view src, const struct cuts *cuts)
{
	uint32_t pieces = cuts->n > 1 ? cuts->n : 1;
	struct zstd_finder f = {.w = w, .src = src.p, .known = {.rep = FIRST_OFFSETS},
				.search = pieces > 1 ? ZSTD_PLANES : ZSTD_NEAR};
	uint64_t bits = 0;
	zstd_forget(w, f.search);
	for (uint32_t i = 0, at = 0; i < pieces; i++) {
		size_t until = pieces > 1 ? cuts_end(cuts, i, src.n) : src.n;
		bits += BLOCK_BITS * src.n / STREAM_FULL;
		bits += price_piece(&f, view_part(src, at, until - at), src.n);
		at = (uint32_t)until;
	}
	return bits / 8;
}
