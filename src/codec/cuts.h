/*
 * Where to cut a stream, so that bytes of unlike statistics get tables of their own.
 *
 * What a filter leaves is a row of planes: the lowest bytes of all items, then the next ones.
 * Noise and nearly constant bytes in one table cost both of them. The format's own answer is a
 * stream for each byte of an item (FORMAT.md 3.3), for items of at most 16 bytes and with a
 * shuffle only; a codec whose streams may change their tables on the way does better: it cuts where
 * that pays, planes of bits too, and still decodes at one go. Any reader of the codec reads it.
 */
#ifndef CODEC_CUTS_H
#define CODEC_CUTS_H

#include "base/bytes.h"

#define CUTS_MAX 64

struct cuts {
	uint32_t parts; /* that a filter made of a block; the last has what is left over as well */
	uint32_t n;     /* pieces; below 2: nothing is cut                                       */
	uint16_t end[CUTS_MAX]; /* of each piece, in parts                                       */
	bool bits;              /* the parts are planes of bits                                  */
};

/* Decides by samples of a filtered block that consists of so many parts. */
struct cuts cuts_find(struct view filtered, uint32_t parts);

/* A cut every few parts, wherever it is worth a look: for estimates, which pay for no tables. */
struct cuts cuts_even(size_t n, uint32_t parts);

/* Where piece i ends in a stream of n bytes. */
static inline size_t cuts_end(const struct cuts *c, uint32_t i, size_t n)
{
	return i + 1 == c->n ? n : c->end[i] * (n / c->parts);
}

#endif
