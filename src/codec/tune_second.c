/*
 * The second look at a chunk: takes other bytes than the first, and more of them, and decides
 * between the best candidates of the first, unless one of these was far ahead.
 *
 * Two things mislead short pieces, and are made up for here. Differences (bytedelta) look better
 * than they are, so that one of them does not win without a trial of its sibling without them, on
 * long pieces. And whether the planes of items are better coded as a stream each or joined in one
 * depends on how alike they are: the best candidate is tried both ways.
 */
#include "codec/filter.h"
#include "codec/tune_impl.h"

#include <assert.h>

#define FINALISTS 2

/*
 * How many pieces are gathered, and of how many bytes. With 24 KiB in all instead of 32, records of
 * 28 bytes were stored by another size, and 8 % larger.
 */
#define PIECES 4
#define PIECE (8u << 10)
#define LONG_PIECES 2
#define LONG_PIECE (16u << 10)

static bool is_delta(const struct pipeline *p)
{
	return p->filter[FILTER_SLOTS - 1] == FILTER_BYTEDELTA;
}

/* Of long items a short look has too few for a judgement. */
static bool has_long_items(const struct tune_trial *trial)
{
	return trial->pipeline.typesize > TUNE_USUAL_MAX;
}

/* A twentieth ahead, and far from not being worth it. */
static bool clear_winner(const struct tune_report *r)
{
	uint32_t best = r->tried[0].score;
	if (has_long_items(&r->tried[0]) || has_long_items(&r->tried[1]))
		return false;
	return r->tried[1].score - best > best / 20 &&
	       tune_permille(&r->tried[0]) < TUNE_PAYS_CLEARLY;
}

/* Where one with differences is among the first `n`; -1: nowhere. */
static int delta_place(const struct tune_report *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (is_delta(&r->tried[i].pipeline) && !has_long_items(&r->tried[i]))
			return (int)i;
	return -1;
}

/*
 * The sibling of a candidate with differences is the same without them. Puts it behind the one at
 * `place`, tried or not, unless it stands before. Returns how many candidates are to be looked at
 * again: the best other one without differences too, unless it is behind by more than differences
 * are ever flattered (gather_long).
 */
static unsigned bring_sibling(struct tuner *t, unsigned place)
{
	struct tune_report *r = t->report;
	struct tune_trial sibling = {0};
	uint32_t size = r->tried[place].pipeline.typesize;
	unsigned i = 0, next = place + 1;

	enum tune_kind kind = size > 1 ? TUNE_KIND_SHUFFLE : TUNE_KIND_PLAIN;
	tune_build(t->goal, kind, size, &sibling.pipeline);
	while (i < r->ntried && !tune_same_filters(&r->tried[i].pipeline, &sibling.pipeline))
		i++;
	if (i < place)
		return next;
	assert(i < TUNE_TRIED_MAX);
	r->ntried += i == r->ntried;
	memmove(&r->tried[next + 1], &r->tried[next], (i - next) * sizeof *r->tried);
	r->tried[next] = sibling;
	bool other = place == 0 && r->ntried > 2 && !is_delta(&r->tried[2].pipeline) &&
		     r->tried[2].score <= r->tried[0].score + r->tried[0].score / 4;
	return next + 1 + other;
}

/* Puts the best candidate with its planes in one stream at place `n`, unless it has one. */
static unsigned bring_joined(struct tune_report *r, unsigned n)
{
	struct tune_trial joined = {.pipeline = r->tried[0].pipeline};
	if (!tune_splits(&joined.pipeline))
		return n;
	joined.pipeline.split_mode = SPLIT_NEVER;
	assert(r->ntried < TUNE_TRIED_MAX);
	memmove(&r->tried[n + 1], &r->tried[n], (r->ntried - n) * sizeof *r->tried);
	r->ntried++;
	r->tried[n] = joined;
	return n + 1;
}

/*
 * For candidates with differences. Places of a chunk differ in level, which differences do not see
 * but a table of bytes does: four pieces in one block flatter them, by up to 14 % of an image. So
 * they are tried on longer pieces, each a block of its own.
 */
static int gather_long(struct tuner *t)
{
	TRY(tune_gather(t, LONG_PIECES, LONG_PIECE, true));
	t->block = t->gathered.n / LONG_PIECES;
	return 0;
}

/* Tries the first `n` once more, on what is gathered. */
static int try_again(struct tuner *t, unsigned n)
{
	struct tune_report *r = t->report;
	for (unsigned i = 0; i < n; i++) {
		struct pipeline p = r->tried[i].pipeline;
		TRY(tune_try(t, &p, &r->tried[i]));
	}
	tune_sort(r->tried, n);
	return 0;
}

/* Adds what the first `n` make of other bytes. */
static int try_more(struct tuner *t, unsigned n)
{
	struct tune_report *r = t->report;
	for (unsigned i = 0; i < n; i++) {
		struct tune_trial more, *so_far = &r->tried[i];
		TRY(tune_try(t, &so_far->pipeline, &more));
		so_far->sampled += more.sampled;
		so_far->stored += more.stored;
		so_far->score += more.score;
	}
	tune_sort(r->tried, n);
	return 0;
}

/* How many of the first `n`, the best of which is first, another piece may still put first. */
static unsigned count_rivals(const struct tune_report *r, unsigned n)
{
	unsigned rivals = 1;
	while (rivals < n && !tune_far_behind(&r->tried[rivals], &r->tried[0]))
		rivals++;
	return rivals;
}

/*
 * Those that one long piece leaves far behind are not tried on the other one: that is half of the
 * time, and where it matters they are closer. The pieces of a small chunk are too short for that.
 */
static int try_long_pieces(struct tuner *t, unsigned n)
{
	struct view all = t->gathered;
	t->gathered = view_part(all, 0, t->block);
	TRY(try_again(t, n));
	if (t->block >= LONG_PIECE / 2)
		n = count_rivals(t->report, n);
	t->gathered = view_part(all, t->block, all.n - t->block);
	return n > 1 ? try_more(t, n) : 0;
}

int tune_second_look(struct tuner *t)
{
	struct tune_report *r = t->report;
	unsigned n = (unsigned)min_u64(r->ntried, FINALISTS);
	int delta = delta_place(r, n);
	/* Nothing to decide between; but that nothing at all pays is not believed at one look. */
	if (r->ntried == 1 && tune_pays(t->goal, &r->tried[0]))
		return 0;
	if (delta >= 0)
		n = bring_sibling(t, (unsigned)delta);
	else if (n > 1 && clear_winner(r) && !tune_splits(&r->tried[0].pipeline))
		return 0;
	TRY(delta >= 0 ? gather_long(t) : tune_gather(t, PIECES, PIECE, true));
	n = bring_joined(r, n);
	return t->block && t->block < t->gathered.n ? try_long_pieces(t, n) : try_again(t, n);
}
