/*
 * Finds, with one whole block, what short pieces cannot show: distant copies, which a filter would
 * break up.
 */
#include "codec/filter.h"
#include "codec/match.h"
#include "codec/tune/impl.h"

static const struct tune_pieces one_block = {1, 64u << 10, 1}, text_block = {1, 96u << 10, 1};

/*
 * Short pieces have no distant copies, and packed bytes may have nothing else: genes at two bits
 * per letter look like noise but recur, as do the names of many small members of an archive. So if
 * little or nothing is gained, a whole block is encoded.
 */
static int try_block(struct tuner *t)
{
	struct tune_report *r = t->report;
	struct tune_trial plain;
	TRY(tune_gather(t, &one_block, TUNE_OTHER_PLACES));
	TRY(tune_try_plain(t, &plain));
	uint32_t most = (uint32_t)min_u64(TUNE_PAYS_CLEARLY, tune_permille(&r->tried[0]));
	bool better = tune_pays(t->goal, &r->tried[0]) ? tune_permille(&plain) < most
						       : tune_pays(t->goal, &plain);
	if (better)
		tune_bring(r, plain, tune_place_of_plain(r), 0);
	return 0;
}

/*
 * Similar rows of letters, such as genes of relatives, have copies one row away, and the search of
 * the next level finds more of them. Short pieces show neither, and find a filter for such data.
 * One block decides; its gain has to outweigh the results of all other places. If it is known to
 * have `far` copies, a sixteenth is enough, and a few bytes: blocks that come to little differ.
 */
#define LITTLE 64

static int try_copies(struct tuner *t, bool far)
{
	struct tune_report *r = t->report;
	struct tune_trial filtered, plain, best = r->tried[0];
	unsigned place = tune_place_of_plain(r);
	TRY(tune_gather(t, &text_block, TUNE_OTHER_PLACES));
	TRY(tune_try_coded(t, &best.pipeline, &filtered));
	TRY(tune_try_plain(t, &plain));
	uint64_t with = (uint64_t)filtered.stored * tune_permille(&best);
	uint64_t without = (uint64_t)plain.stored * tune_permille(&r->tried[place]);
	bool clear = far && plain.stored + plain.stored / 16 + LITTLE < filtered.stored;
	if (without < with || clear)
		tune_bring(r, plain, place, 0);
	return 0;
}

/*
 * Positions are selected by a hash of their content, so that copies are sampled at the same
 * positions. It is of five bytes: doubles that come from decimals have that many in common, and no
 * more.
 */
#define COPY_CUT 24 /* bits of the eight bytes that are ignored */
#define COPY_LOG 10
#define COPY_EVERY 32
#define WEAK 650      /* stored bytes per 1000 */
#define GOOD 400
#define STRONG 125
#define COPY_FAR 1024 /* short pieces show nearer ones, too */

/*
 * True: of the block's news, which have not occurred just before, as runs have, more than so many
 * sixteenths have occurred before that.
 */
static bool has_far_copies(struct view v, uint32_t sixteenths)
{
	uint32_t last[1u << COPY_LOG] = {0}, found = 0, news = 0;
	for (uint32_t i = 1; i + 8 <= v.n; i++) {
		uint64_t x = get_le64(v.p + i) << COPY_CUT, hash = x * HASH_FACTOR_64;
		if (hash >> 32 & (COPY_EVERY - 1))
			continue;
		uint32_t *slot = &last[hash >> (64 - COPY_LOG)];
		bool copy = *slot && get_le64(v.p + *slot) << COPY_CUT == x;
		bool far = !copy || i - *slot > COPY_FAR;
		news += far;
		found += copy && far;
		*slot = i;
	}
	return 16 * found > sixteenths * news;
}

/*
 * How many far copies a block must have, in sixteenths of its news, to put the best candidate, a
 * filter, in doubt; 0: no number of them does.
 *
 * One, if it saves about a third or less, or leaves little while matches alone leave at most half
 * as much again: most of the rest may be copies of rows. Or if it is bitshuffle of small signed
 * numbers, which preserves only copies at multiples of eight items.
 *
 * Four, if matches alone leave up to two and a half times as much: a field of floats that are
 * rounded to a tenth has few different numbers, which short pieces do not show, as they lack the
 * row before. Of doubles a filter makes more, on the whole, than one block shows.
 */
static uint32_t doubtful_share(const struct tuner *t)
{
	const struct tune_report *r = t->report;
	const struct tune_trial *best = &r->tried[0], *plain = &r->tried[tune_place_of_plain(r)];
	uint32_t with = tune_permille(best), without = tune_permille(plain);
	if (t->has_signs && tune_last_filter(&best->pipeline) == FILTER_BITSHUFFLE)
		return 1;
	if (with > WEAK || (with < STRONG && 2 * without <= 3 * with))
		return 1;
	return best->pipeline.typesize <= 4 && with < GOOD && 2 * without <= 5 * with ? 4 : 0;
}

/* Looks in one block for copies that the filter would break up. */
static int find_copies(struct tuner *t, bool *found)
{
	uint32_t share = doubtful_share(t);
	*found = false;
	if (!share)
		return 0;
	TRY(tune_gather(t, &one_block, TUNE_OTHER_PLACES));
	*found = has_far_copies(t->gathered, share);
	return 0;
}

/*
 * True: the best candidate is a filter for decimals, which have more copies than short pieces show;
 * or one for text, or for usual items although matches save a lot, with no filter as a close
 * second: in text, copies made up for no more than a quarter. `sample`: the bytes gathered last.
 */
static bool may_have_copies(const struct tuner *t, struct view sample)
{
	const struct tune_report *r = t->report;
	const struct tune_trial *best = &r->tried[0], *plain = &r->tried[tune_place_of_plain(r)];
	uint32_t with = tune_permille(best), without = tune_permille(plain);
	bool usual = t->wordy && tune_is_usual(best->pipeline.typesize);
	return (usual && 8 * without <= 9 * with + 8) || t->decimals ||
	       (4 * without <= 5 * with && tune_is_text(sample));
}

/*
 * True: the best candidate is a filter for floats that come from decimals, and matches save nearly
 * as much: more numbers come again than short pieces show, each by itself, so that has_far_copies
 * does not count them.
 */
static bool are_rounded_floats(const struct tuner *t, struct view sample)
{
	const struct tune_report *r = t->report;
	const struct tune_trial *best = &r->tried[0], *plain = &r->tried[tune_place_of_plain(r)];
	bool near = 3 * tune_permille(plain) <= 4 * tune_permille(best);
	return near && best->pipeline.typesize == 4 && tune_are_decimals(sample, 4);
}

static int look_for_copies(struct tuner *t)
{
	bool far;
	if (!tune_can_estimate(t) || !tune_is_filtered(&t->report->tried[0].pipeline))
		return 0;
	TRY(find_copies(t, &far));
	far |= are_rounded_floats(t, t->gathered);
	return far || may_have_copies(t, t->gathered) ? try_copies(t, far) : 0;
}

int tune_look_far(struct tuner *t)
{
	if (t->goal->aim == TUNE_SPEED)
		return 0;
	return t->little ? try_block(t) : look_for_copies(t);
}

/*
 * The level for size takes all matches, even accidental ones of bytes with low entropy: letters of
 * genes, digits, hexadecimal numbers. These get up to a fifth larger than with the level below,
 * which weighs its matches (zstd/double.c). One block decides.
 */
int tune_look_at_levels(struct tuner *t)
{
	const struct tune_report *r = t->report;
	struct tune_trial advised, below;
	struct pipeline p;
	tune_build(t->goal, TUNE_KIND_PLAIN, 1, &p);
	tune_raise_level(t->goal, &p);
	if (t->goal->aim != TUNE_SIZE || p.level == t->goal->base.level || t->repeats ||
	    tune_is_filtered(&r->tried[0].pipeline))
		return 0;
	TRY(tune_gather(t, &text_block, TUNE_OTHER_PLACES));
	p.blocksize = (uint32_t)t->gathered.n;
	TRY(tune_try_coded(t, &p, &advised));
	p.level--;
	TRY(tune_try_coded(t, &p, &below));
	if (below.stored < advised.stored)
		t->level = p.level;
	return 0;
}
