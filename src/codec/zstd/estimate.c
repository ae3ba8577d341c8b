/*
 * Estimates the encoded length of a sample by counting, without writing anything. The sample stands
 * for a stream of full length: tables are charged in proportion, and the apparent regularity of few
 * bytes is corrected.
 */
#include "codec/cuts.h"
#include "codec/entropy.h"
#include "codec/price.h"
#include "codec/zstd/count.h"
#include "codec/zstd/impl.h"

#define TABLES_BITS 150 /* about the size of the descriptions of a block's three tables of
			   sequences */

#define STREAM_FULL (64u << 10)

static uint32_t largest(const uint32_t count[static 256])
{
	uint32_t most = 0;
	for (unsigned s = 0; s < 256; s++)
		most = count[s] > most ? count[s] : most;
	return most;
}

/*
 * Bits of n literals. No code is shorter than a bit: if one value is more frequent than all others
 * together, telling it from them costs a whole bit each time, not just the entropy of that choice.
 */
static uint64_t literals_bits(const uint32_t count[static 256], size_t n)
{
	uint32_t symbols, bits = entropy_of_many(count, 256, &symbols);
	uint32_t two[2] = {largest(count)}, distinct;
	two[1] = (uint32_t)n - two[0];
	if (symbols <= 1)
		return 0;
	if (two[0] > two[1])
		bits += 256 * (uint32_t)n - entropy_of_many(two, 2, &distinct);
	return bits / 256 + entropy_missed(symbols);
}

/* Counts the literals: those, or, if they are many, the bytes of matches, which are subtracted. */
static void count_literals(const struct zstd_finder *f, struct view v,
			   const struct zstd_parts *parts, uint32_t count[static 256])
{
	const uint8_t *at = v.p;
	if (parts->literals.n < v.n - v.n / 4) {
		count_bytes(parts->literals, 8, count);
		return;
	}
	for (size_t i = 0; i < parts->nsequences; i++) {
		const struct zstd_sequence *s = &f->w->sequence[i];
		at += s->literals;
		for (const uint8_t *end = at + s->match + ZSTD_MATCH_LESS; at < end; at++)
			count[*at]--;
	}
}

/* Planes with more bits per byte, in 1/256, are not searched: matches in them are accidental. */
#define PLANE_NOISE (256 * 7)

/*
 * Unless they are bit planes, and no more than this: a sign looks like noise, but repeats in each
 * plane above the number. The pieces of records are too short for such copies.
 */
#define BIT_PLANES 64

static uint64_t piece_bits(struct zstd_finder *f, struct view v, size_t stream, bool searched)
{
	uint64_t tree = TREE_BITS * stream / STREAM_FULL, most = 8 * v.n;
	uint32_t count[256];
	count_bytes(v, 8, count);
	uint64_t bits = literals_bits(count, v.n), least = min_u64(bits + tree * (bits > 0), most);
	struct zstd_parts parts;
	uint64_t noise = f->search == ZSTD_PLANES ? PLANE_NOISE : ZSTD_NOISE;
	if (!bits || (!searched && bits * 256 > noise * v.n))
		return least;
	f->bits = (uint32_t)(256 * bits / v.n) | 1;
	zstd_find(f, v, &parts);
	if (!parts.nsequences)
		return least;
	count_literals(f, v, &parts, count);
	bits = literals_bits(count, parts.literals.n);
	bits = min_u64(bits + tree * (bits > 0), 8 * parts.literals.n);
	bits += zstd_count_sequences(f->w, parts.nsequences) + TABLES_BITS * stream / STREAM_FULL;
	return min_u64(least, bits);
}

size_t zstd_estimate(struct zstd_work *w, struct view src, const struct cuts *cuts)
{
	uint32_t pieces = cuts->n > 1 ? cuts->n : 1;
	struct zstd_finder f = {.w = w, .src = src.p, .known = {.rep = FIRST_OFFSETS},
				.search = pieces > 1 ? ZSTD_PLANES : ZSTD_NEAR};
	bool searched = cuts->bits && cuts->parts <= BIT_PLANES;
	uint64_t bits = 0;
	zstd_forget(w, f.search);
	for (uint32_t i = 0, at = 0; i < pieces; i++) {
		size_t until = pieces > 1 ? cuts_end(cuts, i, src.n) : src.n;
		bits += BLOCK_BITS * src.n / STREAM_FULL;
		bits += piece_bits(&f, view_part(src, at, until - at), src.n, searched);
		at = (uint32_t)until;
	}
	return bits / 8;
}
