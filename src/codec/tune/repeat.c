/*
 * Detects that most of a chunk repeats at distances that a block does not reach: steps of a
 * simulation with a constant mesh, tiles, copies of a file in an archive. Then the chunk becomes
 * one block.
 */
#include "codec/match.h"
#include "codec/tune/impl.h"

#define FAR (32u << 10)    /* beyond the reach of usual blocks, mostly */
#define LARGEST (1u << 20) /* larger blocks would make reads of single ones slow */

#define IN_VAIN (16u << 20) /* bytes of the file that are skipped after a failed trial */

/*
 * Positions are those of one byte value, so that copies are sampled at the same positions: a value
 * about as frequent as each is in noise, since one in 256 positions is enough.
 */
#define PIECES 32
#define PIECE 128
#define FREQUENT (PIECES * PIECE / 256)

static int value_of_places(struct view v)
{
	uint32_t count[256] = {0}, least = UINT32_MAX;
	int value = 0;
	for (size_t k = 0; k < PIECES; k++)
		for (size_t i = 0; i < PIECE; i++)
			count[v.p[(v.n - PIECE) / PIECES * k + i]]++;
	for (int i = 0; i < 256; i++) {
		uint32_t off = count[i] > FREQUENT ? count[i] - FREQUENT : FREQUENT - count[i];
		if (count[i] && off < least) {
			least = off;
			value = i;
		}
	}
	return value;
}

#define COPY 32 /* bytes compared, and the least distance of positions */
#define PLACES_LOG 13
#define SHARE (8u << 10)

/* The last position for each hash, and how many positions there were, and repeated. */
struct places {
	uint32_t last[1u << PLACES_LOG], all, again;
};

/*
 * Counts positions in a share of the bytes, and those of them that have occurred before, far away.
 */
static void count_places(struct places *s, struct view v, size_t from, int value)
{
	const uint8_t *p = v.p + from, *end = v.p + min_u64(from + SHARE, v.n - COPY);
	while (p < end && (p = memchr(p, value, (size_t)(end - p)))) {
		uint32_t *slot = &s->last[hash_first(p, 8, PLACES_LOG)], at = (uint32_t)(p - v.p);
		s->all++;
		s->again += *slot && at - *slot > FAR && !memcmp(v.p + *slot, p, COPY);
		*slot = at;
		p += COPY;
	}
}

/*
 * True: about a quarter of the bytes have a copy, far away. About half of the shares are sampled,
 * in an irregular pattern, so half of the copies are found, whatever their distance.
 */
static bool comes_again(struct view v)
{
	struct places s = {.all = 0};
	int value = value_of_places(v);
	for (size_t i = 0; i * SHARE + COPY < v.n; i++)
		if (HASH_FACTOR_64 >> i % 64 & 1)
			count_places(&s, v, i * SHARE, value);
	return 8 * s.again > s.all;
}

/* Encodes the gathered bytes in one block, and keeps the result in *best if it is smaller. */
static int try_whole(struct tuner *t, const struct pipeline *p, struct tune_trial *best)
{
	struct tune_trial trial;
	struct pipeline one = *p;
	one.blocksize = LARGEST - LARGEST % one.typesize;
	TRY(tune_try_coded(t, &one, &trial));
	if (trial.stored < best->stored)
		*best = trial;
	return 0;
}

/* The best candidate with a filter, even if none is better; but if no filter was tried, none. */
static const struct pipeline *best_filter(const struct tune_report *r)
{
	unsigned i = !tune_is_filtered(&r->tried[0].pipeline) && r->ntried > 1;
	return &r->tried[i].pipeline;
}

int tune_look_for_repeats(struct tuner *t)
{
	struct tune_report *r = t->report;
	struct view whole = view_part(t->sample, 0, min_u64(t->sample.n, LARGEST));
	struct tune_trial best = {.stored = UINT32_MAX};
	struct pipeline plain;
	bool reaches = t->goal->base.codec == CODEC_ZSTD; /* the others reach back 64 KiB */
	bool may_be_large = t->goal->free_blocksize && t->goal->aim != TUNE_SPEED;
	if (!reaches || !may_be_large || whole.n <= 4 * FAR || t->offset < r->no_repeats ||
	    !comes_again(whole))
		return 0;
	t->gathered = whole;
	tune_build(t->goal, TUNE_KIND_PLAIN, 1, &plain);
	tune_raise_level(t->goal, &plain);
	TRY(try_whole(t, &plain, &best));
	TRY(try_whole(t, best_filter(r), &best));
	/* a quarter has to be saved, since readers of single blocks wait for all of it */
	if (4 * tune_permille(&best) > 3 * min_u64(1000, tune_permille(&r->tried[0]))) {
		r->no_repeats = t->offset + IN_VAIN;
		return 0;
	}
	t->repeats = true;
	tune_bring(r, best, r->ntried < TUNE_TRIED_MAX ? r->ntried : r->ntried - 1, 0);
	return 0;
}
