/* What the files of tune.h share. */
#ifndef CODEC_TUNE_IMPL_H
#define CODEC_TUNE_IMPL_H

#include "codec/codec.h"
#include "codec/kernels/kernels.h"
#include "codec/tune/tune.h"

/* tune/head.c: what a header says of the bytes behind it. */
struct tune_hint {
	const char *format; /* NULL: no header that we know                      */
	uint32_t item;      /* bytes an element, 0: it does not say              */
	uint32_t record;    /* bytes a row of several elements, 0: none          */
	bool mixed;         /* code, or pages of many kinds: filters seldom suit */
	bool tables;        /* the same, but its blocks may be those of text */
};

/* Judges the first bytes of a file; nothing is read past the view, whatever they claim. */
struct tune_hint tune_head(struct view head);

/*
 * tune/scan.c: order-0 entropies of the bytes at each place in an item, in bits of the whole view.
 * They estimate what a codec without matches makes of the bytes once they are shuffled.
 */
#define TUNE_ITEMS_MAX 8

struct tune_scan {
	unsigned n;
	struct tune_item {
		uint32_t size;
		uint64_t shuffled;
		uint64_t delta; /* shuffled, and each byte replaced by its difference to the last */
	} item[TUNE_ITEMS_MAX];
};

/* Fills both entropies of every item whose size is set, 1 .. 255. */
void tune_scan(const struct kernels *k, struct tune_scan *scan, struct view v);

/* Item sizes that are always tried: powers of two up to this. */
#define TUNE_USUAL_MAX 16

static inline bool tune_power_of_two(uint32_t x)
{
	return (x & (x - 1)) == 0;
}

static inline bool tune_is_usual(uint32_t size)
{
	return size <= TUNE_USUAL_MAX && tune_power_of_two(size);
}

/* The distance at which bytes repeat, if it is at most TUNE_ITEM_MAX and no usual size; else 0. */
uint32_t tune_period(struct view v);

/* True: the bytes that 7-bit text has, and no others. */
bool tune_is_text(struct view v);

/*
 * For lines of text that are all as long, and longer than TUNE_ITEM_MAX: the largest part of a
 * line, a half to a quarter, that is no longer; else 0, and also where lines are whole numbers of
 * `column`, a period.
 */
uint32_t tune_line_part(struct view v, uint32_t column);

/* tune/glance.c. Fills g->bits and g->lead; g->item, that of `chosen`, is the caller's. */
void tune_glance(const struct kernels *k, const struct pipeline *chosen, struct tune_glance *g,
		 struct view v);

/* True: it is of the kind that the report's choice was made for. `now` has the report's item. */
bool tune_looks_alike(const struct tune_report *report, const struct tune_glance *now);

/* What is done to items before the codec gets them. */
enum tune_kind { TUNE_KIND_PLAIN, TUNE_KIND_SHUFFLE, TUNE_KIND_BYTEDELTA, TUNE_KIND_BITSHUFFLE };

/* Everything that a choice in progress knows. */
struct tuner {
	struct scratch *s;
	const struct tune_goal *goal;
	struct view sample;         /* of the caller: a chunk, mostly                          */
	struct tune_hint hint;
	struct tune_report *report; /* `tried` is where candidates and their scores are        */
	struct tune_scan scan;
	struct view gathered;       /* in the scratch's dictionary buffer: trials leave it be  */
	struct view scanned;        /* the part of it that `scan` is about                     */
	size_t block;               /* of a trial; 0: all that is gathered is one              */
	uint32_t before;            /* item size of the last choice for the file, 0: none      */
	bool wordy;                 /* matches of single bytes save much                      */
	bool no_shuffle;            /* differences were better than shuffled bytes by far ...  */
	bool no_delta;              /* ... or the other way round                              */
};

/* True: the codec can tell what a sample would take, and need not encode it. */
static inline bool tune_is_priced(const struct tuner *t)
{
	return codec_by_id(t->goal->base.codec)->price;
}

/* tune/try.c: the candidate of this kind, for items of `size` bytes. */
void tune_build(const struct tune_goal *goal, enum tune_kind kind, uint32_t size,
		struct pipeline *p);

/* True: each byte of an item gets a stream of its own. */
bool tune_splits(const struct pipeline *p);

static inline bool tune_is_filtered(const struct pipeline *p)
{
	return p->filter[FILTER_SLOTS - 1];
}

/* True: the two differ at most in what the codec does. */
bool tune_same_filters(const struct pipeline *a, const struct pipeline *b);

/*
 * What is looked at: so many pieces, spread evenly, of at most so many bytes each, and of a small
 * chunk, whose encoding does not take long either, of at most this part of it.
 */
struct tune_pieces {
	size_t n, length, part;
};

/* The others lie nearly half a piece's share behind the first, so that they show other bytes. */
enum tune_places { TUNE_FIRST_PLACES, TUNE_OTHER_PLACES };

/* Puts them into t->gathered. Pieces begin and end between items. */
NODISCARD int tune_gather(struct tuner *t, const struct tune_pieces *pieces,
			  enum tune_places places);

/* Encodes what is gathered, or counts what that would give. *p does not lie in *trial. */
NODISCARD int tune_try(struct tuner *t, const struct pipeline *p, struct tune_trial *trial);

/* Encodes what is gathered as it would be written. *p does not lie in *trial. */
NODISCARD int tune_try_coded(struct tuner *t, const struct pipeline *p, struct tune_trial *trial);

/* The same without a filter, in one block and at the level that it would get. */
NODISCARD int tune_try_plain(struct tuner *t, struct tune_trial *trial);

/* Moves candidate `from`, or a new one, to `place`. */
void tune_bring(struct tune_report *r, const struct tune_trial *new, unsigned from,
		unsigned place);

/* Best first. */
void tune_sort(struct tune_trial *list, unsigned n);

/* True: by more than a tenth. Nothing that was so far behind is tried once more. */
bool tune_far_behind(const struct tune_trial *a, const struct tune_trial *best);

/* Stored bytes of 1000. */
uint32_t tune_permille(const struct tune_trial *trial);

/* Up to this many stored bytes of 1000 it is beyond doubt that compressing pays. */
#define TUNE_PAYS_CLEARLY 900

/* True: enough is saved to be worth decoding for. */
bool tune_pays(const struct tune_goal *goal, const struct tune_trial *trial);

/* tune/tune.c: level and blocks of bytes that no filter helps, other than what *out has. */
void tune_advise(const struct tune_goal *g, bool mixed, struct pipeline *out);

/* tune/look.c: fills report->tried, the best one first. */
NODISCARD int tune_look(struct tuner *t);

/*
 * tune/distant.c, when report->tried has what short pieces say: where that is little, and where a
 * filter may break up copies. Bytes without a filter may come to be the best one.
 */
NODISCARD int tune_look_far(struct tuner *t);
NODISCARD int tune_look_for_copies(struct tuner *t);

#endif
