/* What the files of tune.h share. */
#ifndef CODEC_TUNE_IMPL_H
#define CODEC_TUNE_IMPL_H

#include "codec/tune.h"

/* What a header says of the bytes behind it. */
struct tune_hint {
	const char *format; /* NULL: no header that we know              */
	uint32_t item;      /* bytes an element, 0: it does not say      */
	uint32_t record;    /* bytes a row of several elements, 0: none  */
	bool plain;         /* code and data mixed: no filter suits all  */
};

/* Judges the first bytes of a file; nothing is read past the view, whatever they claim. */
struct tune_hint tune_head(struct view head);

#define TUNE_ITEMS_MAX 8

/* What the entropy of bytes by their place in an item says, in bits of the whole view. */
struct tune_scan {
	unsigned n;
	struct tune_item {
		uint32_t size;
		uint64_t plain; /* shuffled                   */
		uint64_t delta; /* and differences of bytes   */
	} item[TUNE_ITEMS_MAX];
};

/* Fills plain and delta of every item whose size is set, 1 .. 255. */
void tune_scan(struct tune_scan *scan, struct view v);

/* Fills the bits; the item size is the caller's. */
void tune_glance(struct tune_glance *g, struct view v);

/* True: at a glance the bytes are of the kind that the choice of the report was made for. */
bool tune_looks_alike(const struct tune_report *report, struct view v);

/* A distance, 3 .. TUNE_ITEM_MAX and no power of two up to 16, at which bytes repeat; 0: none. */
uint32_t tune_period(struct view v);

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
	size_t block;               /* of a trial; 0: all that is gathered is one              */
	bool no_plain;              /* shuffled bytes lose to their differences by far ...     */
	bool no_delta;              /* ... or the other way round                              */
};

bool tune_power_of_two(uint32_t x);

/* The candidate of this kind, for items of `size` bytes. */
void tune_build(const struct tune_goal *goal, enum tune_kind kind, uint32_t size,
		struct pipeline *p);

/* True: each byte of an item gets a stream of its own. */
bool tune_splits(const struct pipeline *p);

/*
 * So many pieces of at most `length` bytes, spread evenly; `late` moves them by half a
 * piece's share, so that a second look sees other bytes. Pieces begin and end between items.
 */
NODISCARD int tune_gather(struct tuner *t, size_t pieces, size_t length, bool late);

/* Encodes what is gathered. *p does not lie in *trial. */
NODISCARD int tune_try(struct tuner *t, const struct pipeline *p, struct tune_trial *trial);

#endif
