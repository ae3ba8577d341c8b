/*
 * The choice itself: what to look at, which candidate wins, and how long the choice holds.
 *
 * A look (tune/look.c) finds the best of a few candidates. Nearly all of the time goes into trials
 * (tune/try.c), so candidates that cannot win any more are not tried again.
 */
#include "codec/codec.h"
#include "codec/encoder.h"
#include "codec/scratch_impl.h"
#include "codec/tune/impl.h"

/* Shorter samples get the base unchanged. */
#define SAMPLE_MIN 64

/* A choice holds for this many bytes; that for a file's first chunk for less, if it was close. */
#define AGAIN (16u << 20)
#define AGAIN_TIE (4u << 20)

/*
 * At most this often the tolerance of a glance is doubled, each time that choosing again changed
 * nothing.
 */
#define PATIENCE_MAX 2

#define USUAL_BLOCK (64u << 10) /* for bytes without items */
#define TEXT_BLOCK (96u << 10)

/* If no filter helps, it is up to the codec: the next level saves 5 % of text and code. */
void tune_raise_level(const struct tune_goal *g, struct pipeline *out)
{
	if (g->aim != TUNE_SPEED && g->free_codec && out->codec == CODEC_ZSTD && out->level == 1)
		out->level = g->aim == TUNE_SIZE ? 3 : 2;
}

/*
 * A block half as large again saves 3 % more of text, little of code, and costs readers of single
 * blocks a third of their time.
 */
static void use_text_block(const struct tune_goal *g, struct pipeline *out)
{
	if (g->aim != TUNE_SPEED && g->free_blocksize)
		out->blocksize = g->aim == TUNE_SIZE ? 128u << 10 : TEXT_BLOCK;
}

/*
 * True: the file fits one block of text. Usual blocks would split it in two, of which the second,
 * small one would not have the first as its window.
 */
static bool fits_one_block(struct view sample)
{
	return sample.n > USUAL_BLOCK && sample.n <= TEXT_BLOCK;
}

/*
 * The first chunk of a file is the least typical: if it is undecided, the next one should decide.
 */
static bool near_tie(const struct tune_report *r)
{
	const struct tune_trial *best = &r->tried[0], *next = &r->tried[1];
	return r->ntried > 1 && next->score - best->score < best->score / 50;
}

#define END 4096

static bool is_soft(struct scratch *s, struct view part)
{
	struct tune_scan scan = {.n = 1, .item = {{.size = 1}}};
	tune_scan(&s->kernels, &scan, part);
	return scan.item[0].shuffled < 6 * END; /* bits; packed data has 8 per byte */
}

/*
 * Containers of packed data begin (HDF5) or end (zip) with their directory, pages of pointers and
 * zeros. No sample includes that, but it is a tenth of a small file.
 */
static bool has_soft_end(struct scratch *s, const struct tune_input *in)
{
	struct view v = in->sample;
	if (v.n < END)
		return false;
	return (!in->offset && is_soft(s, view_part(v, 0, END))) ||
	       is_soft(s, view_from(v, v.n - END));
}

#define PLACES 128
#define PLACE 256
#define PLACES_SOFT 4  /* a thirtieth of the bytes */
#define VALUES_SOFT 96 /* or fewer; packed data has 162 in 256 bytes, seldom below 140 */

static unsigned count_values(const uint8_t p[static PLACE])
{
	uint64_t seen[4] = {0};
	unsigned n = 0;
	for (unsigned i = 0; i < PLACE; i++)
		seen[p[i] >> 6] |= 1ULL << (p[i] & 63);
	for (unsigned i = 0; i < 4; i++)
		n += (unsigned)__builtin_popcountll(seen[i]);
	return n;
}

/*
 * Photographs have profiles, thumbnails and padding, documents have tables between packed parts,
 * all of it more than a page from their ends. Blocks without such are stored anyway.
 */
static bool has_soft_places(struct view v)
{
	unsigned soft = 0;
	if (v.n < PLACES * PLACE)
		return false;
	for (size_t i = 0; i < PLACES; i++)
		soft += count_values(v.p + (v.n - PLACE) / PLACES * i) <= VALUES_SOFT;
	return soft >= PLACES_SOFT;
}

/* No candidate is worth the time: stores the bytes, unless parts of the chunk are soft. */
static void give_up(const struct tuner *t, const struct tune_input *in, struct pipeline *out)
{
	bool soft = has_soft_end(t->s, in) || has_soft_places(in->sample);
	if (soft && t->goal->aim != TUNE_SPEED) {
		tune_build(t->goal, TUNE_KIND_PLAIN, 1, out);
		t->report->again = 1;
		return;
	}
	out->level = 0;
	/*
	 * Packed bytes all look alike, even where they repeat: so look again soon, then less and
	 * less often.
	 */
	t->report->again = min_u64(AGAIN, max_u64(in->offset, in->sample.n));
}

#define FLAT 2048

/*
 * The bytes from the middle on, or from a later place if those are flat, as in the margin of an
 * image.
 */
static struct view back_half(struct view v)
{
	size_t middle = v.n / 2, step = v.n / 16 + FLAT / 2;
	for (size_t at = middle; v.n > 4 * FLAT && at < v.n - v.n / 8 - FLAT; at += step)
		if (memcmp(v.p + at, v.p + at + 1, FLAT) != 0)
			return view_from(v, at);
	return view_part(v, middle, middle);
}

/*
 * Records do not stand out in every part of a table. If they did for the last choice, and their
 * size was the best, it is tried again; otherwise that part might be stored uncompressed.
 */
static uint32_t period_of(const struct tune_input *in, const struct tune_report *before)
{
	struct view half = back_half(in->sample);
	uint32_t period = tune_period(half), line = tune_line_part(half, period);
	if (line && (!period || line % period))
		period = line;
	uint32_t last = before->tried[0].pipeline.typesize;
	bool known = in->offset && last <= TUNE_ITEM_MAX && !tune_is_usual(last);
	return period || !known ? period : last;
}

/* Remembers the looks of the sample, for glances until the next choice, and for that choice. */
static void remember_looks(const struct tuner *t, const struct tune_input *in,
			   const struct tune_report *before)
{
	struct tune_report *r = t->report;
	const struct pipeline *best = &r->tried[0].pipeline;
	r->glance.item = best->typesize > 1 ? best->typesize : 4;
	tune_glance(&t->s->kernels, best, &r->glance, in->sample);
	if (in->offset && tune_same_filters(&before->tried[0].pipeline, best)) {
		bool alike = tune_looks_alike(before, &r->glance);
		r->patience = (uint32_t)min_u64(before->patience + !alike, PATIENCE_MAX);
	}
}

/* Takes the best candidate, or what suits bytes that none of them helps. */
static void settle(const struct tuner *t, const struct tune_input *in, struct pipeline *out)
{
	struct tune_report *r = t->report;
	const struct tune_trial *best = &r->tried[0];
	bool mixed = t->report->hint.mixed;
	*out = best->pipeline;
	r->permille = tune_permille(best);
	if (t->repeats) {
		r->again = AGAIN_TIE;
		return;
	}
	if (!tune_pays(t->goal, best))
		give_up(t, in, out);
	if (!in->offset && near_tie(r))
		r->again = min_u64(r->again, AGAIN_TIE);
	if (!tune_is_filtered(out) && r->permille <= TUNE_PAYS_CLEARLY) {
		bool small = mixed && !in->offset && fits_one_block(in->sample);
		tune_raise_level(t->goal, out);
		if (!mixed || small)
			use_text_block(t->goal, out);
		out->level = t->level ? t->level : out->level;
		r->again = small ? 1 : r->again;
	}
}

int tune_choose(struct scratch *s, const struct tune_goal *goal, const struct tune_input *in,
		struct pipeline *out, struct tune_report *report)
{
	struct tuner t = {.s = s, .goal = goal, .sample = in->sample, .offset = in->offset,
			  .report = report};
	struct tune_report before = *report;

	if (in->offset)
		t.before = before.tried[0].pipeline.typesize;
	*out = goal->base;
	*report = (struct tune_report){.hint = in->offset ? before.hint : tune_head(in->sample),
				       .permille = 1000,
				       .looked = in->sample.n,
				       .again = AGAIN,
				       .no_repeats = in->offset ? before.no_repeats : 0};
	if (in->sample.n < SAMPLE_MIN || !goal->base.level)
		return 0;
	report->period = period_of(in, &before);
	TRY(tune_look(&t));
	TRY(tune_look_far(&t));
	TRY(tune_look_for_repeats(&t));
	TRY(tune_look_at_levels(&t));
	settle(&t, in, out);
	remember_looks(&t, in, &before);
	return 0;
}

bool tune_candidate(const struct tune_goal *goal, uint32_t item, unsigned i, struct pipeline *out)
{
	const uint32_t sizes[] = {1, 2, 4, 8, 16, tune_is_usual(item) ? 0 : item};
	static const struct form {
		enum tune_kind kind;
		bool joined;
	} forms[] = {
		{TUNE_KIND_SHUFFLE, false},   {TUNE_KIND_SHUFFLE, true},
		{TUNE_KIND_BYTEDELTA, false}, {TUNE_KIND_BYTEDELTA, true},
		{TUNE_KIND_BITSHUFFLE, false},
	};
	enum { NFORMS = sizeof forms / sizeof *forms };

	if (i < 2) {
		tune_build(goal, TUNE_KIND_PLAIN, 1, out);
		if (i == 1) {
			tune_raise_level(goal, out);
			use_text_block(goal, out);
		}
		return true;
	}
	unsigned left = i - 2;
	for (unsigned k = 0; k < NFORMS * sizeof sizes / sizeof *sizes; k++) {
		const struct form *f = &forms[k % NFORMS];
		uint32_t size = sizes[k / NFORMS];
		if (!size || (f->kind == TUNE_KIND_SHUFFLE && size == 1))
			continue;
		tune_build(goal, f->kind, size, out);
		if ((f->joined && !encoder_splits(out)) || left-- > 0)
			continue;
		if (f->joined)
			out->split_mode = SPLIT_NEVER;
		return true;
	}
	return false;
}
