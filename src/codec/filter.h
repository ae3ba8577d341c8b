/*
 * The filters: one file and one row each (filters/list.h). A filter maps the bytes of a block to
 * the same number of bytes, and cannot fail once its parameter has been checked.
 */
#ifndef CODEC_FILTER_H
#define CODEC_FILTER_H

#include "base/bytes.h"
#include "base/err.h"
#include "codec/kernels/kernels.h"

enum filter_id {
	FILTER_NONE = 0,
	FILTER_SHUFFLE = 1,
	FILTER_BITSHUFFLE = 2,
	FILTER_DELTA = 3,
	FILTER_TRUNCPREC = 4,
	FILTER_BYTEDELTA_OLD = 34,
	FILTER_BYTEDELTA = 35,
	FILTER_INTTRUNC = 36,
};

struct filter_arg {
	uint32_t typesize; /* of the chunk, 1 .. 255                                   */
	uint32_t param;    /* of the slot; bytedelta: number of channels, never 0      */
	struct view ref;   /* delta: decoded block 0; empty for block 0 itself         */
	bool blosc1;       /* the older rule for bitshuffle, FORMAT.md 5.3             */
};

/*
 * Filters src to dst, which does not overlap it. Returns how many bytes it has written; those after
 * them, such as a partial item, stay as they are: filter_run copies them.
 */
typedef size_t filter_fn(const struct kernels *, const struct filter_arg *, struct view src,
			 uint8_t *dst);

struct filter {
	const char *name;
	const char *what; /* for help texts                                      */
	uint8_t id;
	bool takes_param; /* NAME:N sets the slot's parameter, not the typesize  */
	bool loses;       /* lossy: does not decode to the bytes it was given    */

	/*
	 * Validates the parameter as stored, one byte. Returns NULL if it is valid, else a sentence
	 * for the user. No function: all are valid.
	 */
	const char *(*check)(uint8_t param, uint32_t typesize);

	/* True: the filter changes nothing with this argument. No function: never. */
	bool (*idle)(const struct filter_arg *);

	/* NULL: not supported (forward), nothing to do (backward). */
	filter_fn *forward, *backward;
};

/* Writes src.n bytes to dst, which does not overlap src. */
static inline void filter_run(filter_fn *fn, const struct kernels *k, const struct filter_arg *arg,
			      struct view src, uint8_t *dst)
{
	size_t done = fn(k, arg, src, dst);
	memcpy(dst + done, src.p + done, src.n - done);
}

/*
 * For filters that zero the low bits of a `bits`-bit number: how many, by this parameter. As int8
 * it is the number of bits that stay or, if negative, of those that are zeroed. A result outside 0
 * .. bits - 1 is for a parameter that `check` refuses.
 */
static inline int filter_bits_zeroed(uint8_t param, int bits)
{
	int m = (int8_t)param;
	return m >= 0 ? bits - m : -m;
}

const struct filter *filter_by_id(unsigned id); /* NULL: not built in */
const struct filter *filter_by_name(struct view name);
const struct filter *filter_at(size_t i); /* in list order; NULL past the last */

/* -ENOTSUP for an id that the format reserves for plug-ins, -EBADMSG for an undefined one. */
NODISCARD int filter_refuse(unsigned id);

#endif
