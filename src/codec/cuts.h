/*
 * Where to cut a stream so that bytes with different statistics get entropy tables of their own.
 *
 * The output of a filter is a sequence of planes: the lowest bytes of all items, then the next
 * ones, and so on. If noise and nearly constant bytes share a table, both compress worse. The
 * format's own solution is a stream for each byte of an item (FORMAT.md 3.3), but only for items of
 * at most 16 bytes, and after a shuffle. A codec whose streams can change tables midway does
 * better: it cuts only where that pays, bit planes included, and still decodes in one pass. Every
 * decoder of that codec can read the result.
 */
#ifndef CODEC_CUTS_H
#define CODEC_CUTS_H

#include "base/bytes.h"

#define CUTS_MAX 64

struct cuts {
	uint32_t parts; /* planes of a filtered block; the last includes any remainder */
	uint32_t n;     /* pieces; fewer than 2: no cuts                             */
	uint16_t end[CUTS_MAX]; /* where each piece ends, counted in planes          */
	bool bits;              /* bit planes, not byte planes                       */
};

/* Decides from samples of a filtered block that consists of `parts` planes. */
struct cuts cuts_find(struct view filtered, uint32_t parts);

/* A cut every few planes, wherever one might pay: for estimates, which do not count the tables. */
struct cuts cuts_even(size_t n, uint32_t parts);

/* Where piece i ends in a stream of n bytes. */
static inline size_t cuts_end(const struct cuts *c, uint32_t i, size_t n)
{
	return i + 1 == c->n ? n : c->end[i] * (n / c->parts);
}

#endif
