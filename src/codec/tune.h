/*
 * Looks at bytes and says how to encode them: which item size, which filters,
 * which block size, or that nothing helps.
 *
 * Two witnesses are heard. The first bytes of a file may carry a header that says what follows
 * (tune_head.c, a row a format). And samples of the data are tried: order-0
 * entropies leave a few candidates out of many, the real filters and a fast real codec decide
 * between those. A header only breaks near ties: what it says is true of most of the file,
 * the samples are true of the bytes at hand.
 *
 * The answer depends on nothing but the arguments. Its cost is bounded: about a millisecond
 * or two, whatever comes in, and no memory but the scratch's own buffers.
 */
#ifndef CODEC_TUNE_H
#define CODEC_TUNE_H

#include "codec/pipeline.h"
#include "codec/scratch.h"

#include <stdbool.h>

enum tune_aim { TUNE_BALANCED, TUNE_SIZE, TUNE_SPEED };

struct tune_goal {
	enum tune_aim aim;
	bool free_codec;      /* codec and level may be chosen too                     */
	bool free_blocksize;  /* the same for blocksize                                */
	uint32_t whole;       /* the one typesize above 1 that is not written bytewise; 0: any */
	struct pipeline base; /* the rest is kept from here; pipeline_check passes it  */
};

struct tune_input {
	struct view head;   /* the first bytes of the file; empty: the sample's at offset 0,
			       else what the report of the choice before says of them */
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

/* What a chunk looks like at a glance. */
#define TUNE_GLANCE_MAX 4
struct tune_glance {
	uint32_t item;
	uint32_t bits[TUNE_GLANCE_MAX];
};

struct tune_report {
	const char *format;       /* what the header was taken for; NULL: unknown       */
	uint32_t item, record;    /* bytes an element and a row that it names, 0: none  */
	bool plain;               /* it is of a kind that no filter suits               */
	uint32_t period;          /* item size found in the bytes, 0: none              */
	uint32_t permille;        /* stored bytes to expect of 1000                     */
	uint64_t again;           /* look again when so many more bytes are written     */
	struct tune_glance glance; /* of the sample                                     */
	uint32_t patience;        /* grows when looking again changed nothing           */
	unsigned ntried;
	struct tune_trial tried[TUNE_TRIED_MAX];
};

/*
 * The pipeline for the sample's bytes and those that follow it in the file. *out passes
 * pipeline_check. Its level is 0 when encoding is not worth the time. Its typesize
 * may be any number to TUNE_ITEM_MAX: where items would be cut by the end of a chunk or of the
 * file, the caller writes them bytewise, which the choice allows (only shuffle, bitshuffle,
 * bytedelta).
 * An empty sample gives the base as it is. *report is zeroed before the first choice for a file
 * and kept for the next. -ENOMEM.
 */
NODISCARD int tune_choose(struct scratch *s, const struct tune_goal *goal,
			  const struct tune_input *in, struct pipeline *out,
			  struct tune_report *report);

/*
 * Number i of everything that tune_choose may come to for this goal, for a search that tries them
 * all; `item`: a size of items or records beside the usual ones, 0: none. False past the last.
 */
bool tune_candidate(const struct tune_goal *goal, uint32_t item, unsigned i, struct pipeline *out);

/*
 * False: time to choose again before `next` is encoded, since it is of another nature than what the
 * choice was made for, or because so many bytes were written `since`. A few microseconds.
 */
bool tune_still_good(const struct tune_report *report, uint64_t since, struct view next);

#endif
