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

/* A distance, 3 .. TUNE_ITEM_MAX and no power of two up to 16, at which bytes repeat; 0: none. */
uint32_t tune_period(struct view v);

#endif
