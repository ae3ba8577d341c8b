/*
 * Finds the matches of a block: looks at a sample of its bytes for how to search, and hands it to
 * the search of its level.
 */
#include "codec/entropy.h"
#include "codec/zstd/count.h"
#include "codec/zstd/scan.h"

static bool is_level_2(enum zstd_search by)
{
	return by == ZSTD_DOUBLE || by == ZSTD_DOUBLE_SMALL;
}

static void forget_pair(struct zstd_work *w, unsigned log)
{
	memset(w->pair.by_short, 0, sizeof *w->pair.by_short << log);
	memset(w->pair.by_long, 0, sizeof *w->pair.by_long << log);
}

void zstd_forget(struct zstd_work *w, enum zstd_search by)
{
	switch (by) {
	case ZSTD_NEAR: memset(w->near, 0, sizeof w->near); break;
	case ZSTD_PLANES: memset(w->plane, 0, sizeof w->plane); break;
	case ZSTD_FAR_PLANES:
	case ZSTD_FAR: memset(w->far, 0, sizeof w->far); break;
	case ZSTD_DOUBLE: forget_pair(w, ZSTD_DOUBLE_LOG); break;
	case ZSTD_DOUBLE_SMALL: forget_pair(w, ZSTD_SMALL_LOG); break;
	}
}

#define SAMPLED 1024 /* bytes of a block, in RUNS pieces spread over it */
#define RUNS 8
#define SAMPLED_MIN (4 * SAMPLED) /* smaller blocks are not sampled */
#define BITS_UNKNOWN (256 * 4)    /* the assumption for those             */

/* Counts a sample. False: the block is too small for that to pay. */
static bool count_some(struct view v, uint32_t count[static 256])
{
	struct zstd_counts counts;
	if (v.n < SAMPLED_MIN)
		return false;
	counts_clear(&counts, 4);
	for (size_t i = 0; i < RUNS; i++)
		counts_add(&counts, view_part(v, i * (v.n / RUNS), SAMPLED / RUNS), 4);
	counts_sum(&counts, 4, count);
	return true;
}

/* The bits per byte, in 1/256, of n bytes with these counts. */
static uint32_t bits_of(const uint32_t count[static 256], uint32_t n)
{
	return entropy_of(count) / (16 * n);
}

/* Bits per literal, in 1/256: of all bytes, and of all but the most frequent value. */
#define FEW_BITS (256 * 43 / 10)
#define OTHERS_FEW_BITS (256 * 5)

/*
 * True: level 2 weighs its matches, because literals have few bits, as in numbers written as text.
 * Code between zeros has few bits per byte, too, but many per literal; and if half of the bytes are
 * one value, matches are long. There, and in words, weighing would cost 0.1 to 2 % in size. `count`
 * is of a sample with `bits` per byte, and is modified.
 */
static bool has_few_bits(uint32_t count[static 256], uint32_t bits)
{
	uint32_t most = 0;
	for (uint32_t i = 1; i < 256; i++)
		most = count[i] > count[most] ? i : most;
	uint32_t others = SAMPLED - count[most];
	count[most] = 0;
	return bits < FEW_BITS && others >= SAMPLED / 2 && bits_of(count, others) < OTHERS_FEW_BITS;
}

/*
 * The bits per byte of a block, in 1/256, from a sample. *judged: the same, if level 2 has to weigh
 * its matches by it.
 */
static uint32_t look(enum zstd_search by, struct view v, uint32_t *judged)
{
	uint32_t count[256];
	if (!count_some(v, count))
		return BITS_UNKNOWN;
	uint32_t bits = bits_of(count, SAMPLED);
	if (is_level_2(by) && has_few_bits(count, bits))
		*judged = bits;
	return bits;
}

static void search(struct scan *s, enum zstd_search by, uint32_t bits)
{
	unsigned leap = in_planes(by) ? LEAP_PLANE : LEAP_FIRST;
	if (bits > ZSTD_NOISE)
		leap = LEAP_NOISE;
	s->stop = s->end - MARGIN;
	if (is_level_2(by))
		zstd_find_double(s, leap, by);
	else
		zstd_find_single(s, leap, by, bits);
}

void zstd_find(struct zstd_finder *f, struct view v, struct zstd_parts *parts)
{
	struct scan s = {.w = f->w, .src = f->src, .p = v.p + (v.p == f->src), .anchor = v.p,
			 .end = v.p + v.n, .rep0 = f->known.rep[0], .rep1 = f->known.rep[1],
			 .next_sequence = f->w->sequence, .next_literal = f->w->literals};
	uint32_t bits = f->bits ? f->bits : look(f->search, v, &s.bits);
	if (v.n >= SHORT)
		search(&s, f->search, bits);
	*parts = (struct zstd_parts){.nsequences = (size_t)(s.next_sequence - f->w->sequence),
				     .literals = v,
				     .noise = bits > ZSTD_NOISE};
	if (!parts->nsequences)
		return;
	bytes_copy(s.next_literal, s.anchor, (size_t)(s.end - s.anchor));
	s.next_literal += s.end - s.anchor;
	parts->literals = view_of(f->w->literals, (size_t)(s.next_literal - f->w->literals));
	f->known.rep[0] = s.rep0;
	f->known.rep[1] = s.rep1;
}
