/* Shared by the files that implement tune.h. */
#ifndef CODEC_TUNE_IMPL_H
#define CODEC_TUNE_IMPL_H

#include "codec/codec.h"
#include "codec/kernels/kernels.h"
#include "codec/tune/tune.h"

/*
 * tune/head.c: recognises a format by the first bytes of a file. Never reads past the view,
 * whatever they claim.
 */
struct tune_hint tune_head(struct view head);

/*
 * tune/scan.c: order-0 entropies of the bytes at each position in an item, summed, in bits for the
 * whole view. They estimate how a codec without matches compresses the shuffled bytes.
 */
#define TUNE_ITEMS_MAX 8

struct tune_scan {
	unsigned n;
	struct tune_item {
		uint32_t size;
		uint64_t shuffled;
		uint64_t delta; /* the same for the differences between successive bytes */
	} item[TUNE_ITEMS_MAX];
};

/* Sets both entropies of every item whose size is set, 1 .. 255. */
void tune_scan(const struct kernels *k, struct tune_scan *scan, struct view v);

/* Item sizes that are always tried: the powers of two up to this one. */
#define TUNE_USUAL_MAX 16

static inline bool tune_power_of_two(uint32_t x)
{
	return (x & (x - 1)) == 0;
}

static inline bool tune_is_usual(uint32_t size)
{
	return size <= TUNE_USUAL_MAX && tune_power_of_two(size);
}

/* The period of the bytes, if it is at most TUNE_ITEM_MAX and not a usual size; else 0. */
uint32_t tune_period(struct view v);

/*
 * The item size, 2, 4 or 8, if the items are integers of both signs that would fit fewer bytes;
 * else 0.
 */
uint32_t tune_signed(struct view v);

/*
 * True: numbers that come from decimals, as in tables: doubles (size 8) with up to six fractional
 * digits, or floats (4) with two.
 */
bool tune_are_decimals(struct view v, uint32_t size);

/* True: all bytes are 7-bit text. */
bool tune_is_text(struct view v);

/*
 * For lines of text of equal length, longer than TUNE_ITEM_MAX: the largest of a half, a third or a
 * quarter of a line that is no longer than that. 0: there is none, or the line length is a multiple
 * of `column`, a period.
 */
uint32_t tune_line_part(struct view v, uint32_t column);

/* tune/glance.c. Fills in all but g->item, which the caller has set to that of `chosen`. */
void tune_glance(const struct kernels *k, const struct pipeline *chosen, struct tune_glance *g,
		 struct view v);

/*
 * True: the bytes look like those for which the report's choice was made. `now` has the report's
 * item.
 */
bool tune_looks_alike(const struct tune_report *report, const struct tune_glance *now);

/* The last filter before the codec, if any. */
enum tune_kind { TUNE_KIND_PLAIN, TUNE_KIND_SHUFFLE, TUNE_KIND_BYTEDELTA, TUNE_KIND_BITSHUFFLE };

/* The state of a choice in progress. */
struct tuner {
	struct scratch *s;
	const struct tune_goal *goal;
	struct view sample;         /* the caller's: usually a chunk                           */
	struct tune_report *report; /* candidates and their scores are in `tried`              */
	struct tune_scan scan;
	struct view gathered;       /* in the scratch's dictionary buffer, unused by trials    */
	struct view scanned;        /* the part of it that `scan` describes                    */
	size_t block;               /* block size of a trial; 0: all gathered bytes are one block */
	uint64_t offset;            /* of the sample in the file                               */
	uint32_t before;            /* item size of the last choice for the file; 0: none      */
	bool little;                /* by short pieces, not even the best candidate saves much */
	bool wordy;                 /* matches save a lot without any filter                   */
	bool decimals;              /* tune_are_decimals                                       */
	bool has_signs;             /* tune_signed found an item                               */
	bool repeats;               /* the best candidate has a chunk in one block             */
	uint8_t level;              /* tune_look_at_levels: better than tune_raise_level's, or 0 */
};

/* True: the codec can estimate the length of an encoded sample without encoding it. */
static inline bool tune_can_estimate(const struct tuner *t)
{
	return codec_by_id(t->goal->base.codec)->estimate;
}

/* tune/try.c: builds the candidate of this kind for items of `size` bytes. */
void tune_build(const struct tune_goal *goal, enum tune_kind kind, uint32_t size,
		struct pipeline *p);

/* The filter of a candidate that feeds the codec: the one in the last slot. */
static inline uint8_t tune_last_filter(const struct pipeline *p)
{
	return p->filter[FILTER_SLOTS - 1];
}

static inline bool tune_is_filtered(const struct pipeline *p)
{
	return tune_last_filter(p);
}

/* True: the two differ at most in the codec's settings. */
bool tune_same_filters(const struct pipeline *a, const struct pipeline *b);

/*
 * What to look at: `n` pieces, spread evenly, of at most `length` bytes each, but no more than 1 /
 * `part` of a small chunk, whose encoding does not take long either.
 */
struct tune_pieces {
	size_t n, length, part;
};

/*
 * Two sets of places with different bytes: the second is offset by nearly half the distance between
 * pieces.
 */
enum tune_places { TUNE_FIRST_PLACES, TUNE_OTHER_PLACES };

/* Copies these pieces to t->gathered. Pieces begin and end between items. */
NODISCARD int tune_gather(struct tuner *t, const struct tune_pieces *pieces,
			  enum tune_places places);

/* Encodes the gathered bytes, or estimates their encoded length. *p must not be part of *trial. */
NODISCARD int tune_try(struct tuner *t, const struct pipeline *p, struct tune_trial *trial);

/* Encodes the gathered bytes as they would be written. *p must not be part of *trial. */
NODISCARD int tune_try_coded(struct tuner *t, const struct pipeline *p, struct tune_trial *trial);

/* The same without filters, in one block, at the level that they would get. */
NODISCARD int tune_try_plain(struct tuner *t, struct tune_trial *trial);

/* The index of the candidate without a filter, which is always tried. */
unsigned tune_place_of_plain(const struct tune_report *r);

/* Moves candidate `from` up to `place`, as `trial`. from == r->ntried: a new one. */
void tune_bring(struct tune_report *r, struct tune_trial trial, unsigned from, unsigned place);

/* Sorts, best first. */
void tune_sort(struct tune_trial *list, unsigned n);

/* True: `a` is worse than `best` by more than a tenth. Such candidates are not tried again. */
bool tune_far_behind(const struct tune_trial *a, const struct tune_trial *best);

/* Stored bytes per 1000 bytes of the sample. */
uint32_t tune_permille(const struct tune_trial *trial);

/* With at most this many stored bytes per 1000, compression clearly pays. */
#define TUNE_PAYS_CLEARLY 900

/* True: enough is saved to be worth the decoding. */
bool tune_pays(const struct tune_goal *goal, const struct tune_trial *trial);

/* tune/look.c: fills in report->tried, best first. */
NODISCARD int tune_look(struct tuner *t);

/*
 * tune/distant.c, after that: short pieces miss distant matches. If they saved little, or if a
 * filter may break up copies, this may make "no filter" the best candidate.
 */
NODISCARD int tune_look_far(struct tuner *t);

/*
 * tune/repeat.c, after that: if most of the chunk repeats at distances beyond usual blocks, and
 * that saves a quarter, makes one large block the best candidate, and sets t->repeats.
 */
NODISCARD int tune_look_for_repeats(struct tuner *t);

/*
 * tune/distant.c, after that: if only the codec helps, and the aim is size, tries the level of
 * tune_raise_level and the one below it, and sets t->level.
 */
NODISCARD int tune_look_at_levels(struct tuner *t);

#endif
