/*
 * Looks at bytes and chooses how to encode them: item size, filters, block size; or finds that
 * nothing helps.
 *
 * It has two sources. The first bytes of a file may be a header that says what follows
 * (tune/head.c, a row a format). And samples of the data are looked at: order-0 entropies leave a
 * few candidates out of many, trials with the real filters decide between those, by the real codec
 * or, for zstd, by a count of what that would write. A header only breaks near ties: it speaks of
 * most of the file, the samples of the bytes at hand.
 *
 * The answer depends on nothing but the arguments. It takes a fifth of a millisecond for zstd, one
 * or two for codecs that have to encode the samples, whatever the bytes are, and no memory but the
 * scratch's own buffers.
 */
#ifndef CODEC_TUNE_TUNE_H
#define CODEC_TUNE_TUNE_H

#include "codec/pipeline.h"
#include "codec/scratch.h"

#include <stdbool.h>

enum tune_aim { TUNE_BALANCED, TUNE_SIZE, TUNE_SPEED };

struct tune_goal {
	enum tune_aim aim;
	bool free_codec;      /* codec and level may be chosen too                     */
	bool free_blocksize;  /* the same for blocksize                                */
	uint32_t whole;       /* 0, or: items of other sizes than this are written bytewise    */
	struct pipeline base; /* the rest is kept from here; pipeline_check passes it  */
};

struct tune_input {
	struct view head;   /* the first bytes of the file. Empty: those of the sample, if it
			       begins the file; else what *report says of them is kept */
	struct view sample; /* bytes to encode, best a whole chunk; may be head itself */
	uint64_t offset;    /* of the sample in the file                               */
};

#define TUNE_TRIED_MAX 24

/*
 * Longer items are never chosen: their size would be the parameter of a filter in the header of the
 * frame, and the reference's Python reads that as signed and does not open the frame (4.14.1).
 */
#define TUNE_ITEM_MAX 127

/* A pipeline that was tried on samples. */
struct tune_trial {
	struct pipeline pipeline;
	uint32_t sampled, stored; /* bytes before and after                            */
	uint32_t score;           /* what was compared; smaller is better               */
};

/*
 * What a chunk looks like at a glance: entropies of its bytes and of their differences, first as
 * single bytes, then as items, in 1/256 bit a byte.
 */
#define TUNE_GLANCE_MAX 4
struct tune_glance {
	uint32_t item;
	uint32_t bits[TUNE_GLANCE_MAX];
	uint32_t lead; /* of the best filter of usual items over the chosen one, likewise */
	uint32_t busy; /* where it sees but one byte: of 1024 places, those that have more     */
};

struct tune_report {
	const char *format;       /* what the header was taken for; NULL: unknown       */
	uint32_t item, record;    /* bytes an element and a row, by the header; 0: none */
	bool mixed;               /* code, pages of many kinds: filters seldom suit     */
	bool tables;              /* of many kinds: the same                            */
	uint32_t period;          /* item size found in the bytes, 0: none              */
	uint32_t permille;        /* stored bytes to expect of 1000                     */
	size_t looked;            /* bytes of the sample                                */
	uint64_t again;           /* choose again when so many more bytes are written   */
	struct tune_glance glance; /* of the sample                                     */
	uint32_t patience;        /* grows when choosing again changed nothing          */
	unsigned ntried;
	struct tune_trial tried[TUNE_TRIED_MAX];
};

/*
 * Sets *out to the pipeline for the sample's bytes and those that follow it in the file. It passes
 * pipeline_check; its level is 0 when encoding is not worth the time. Its typesize may be any
 * number to TUNE_ITEM_MAX: where items would be cut by the end of a chunk or of the file, the
 * caller writes them bytewise (policy.h), which is possible with the filters that are ever chosen
 * (shuffle, bitshuffle, bytedelta).
 *
 * A sample that is too short gives the base as it is. *report is zeroed by the caller before the
 * first choice for a file, and kept for the next one. -ENOMEM.
 */
NODISCARD int tune_choose(struct scratch *s, const struct tune_goal *goal,
			  const struct tune_input *in, struct pipeline *out,
			  struct tune_report *report);

/* The level of bytes that are too few to choose for, without a filter: *out has the base's. */
void tune_unseen(const struct tune_goal *goal, struct pipeline *out);

/*
 * Candidate number i of all that tune_choose may come to for this goal, for trying every one of
 * them. `item`: a size of items or records beside the usual ones, 0: none. False past the last.
 */
bool tune_candidate(const struct tune_goal *goal, uint32_t item, unsigned i, struct pipeline *out);

/*
 * False: it is time to choose again before `next` is encoded, as it looks different from what the
 * choice was made for, or `since` bytes are too many. Little, beside the sample of that choice, is
 * not worth another one. Takes a few microseconds.
 */
bool tune_still_good(struct scratch *s, const struct tune_report *report, uint64_t since,
		     struct view next);

#endif
