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
	uint32_t whole;       /* item size of the file; others are written bytewise (policy.h).
				 0: none yet, any size may become it                   */
	struct pipeline base; /* has passed pipeline_check; what may not be chosen is kept */
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

/* What a chunk looks like at a glance: entropies of a few pieces of it, in 1/256 bit a byte. */
#define TUNE_GLANCE_MAX 4
struct tune_glance {
	uint32_t item; /* item size */
	/* of bytes, of their differences; of the bytes of items, of their differences */
	uint32_t bits[TUNE_GLANCE_MAX];
	uint32_t lead; /* by how much the best filter of the usual items beats the chosen one */
	uint32_t busy; /* of 1024 places, those that are not all one byte; 1024: not counted  */
};

struct tune_report {
	/* by the header of the file: struct tune_hint of tune/impl.h */
	const char *format;       /* what the header was taken for; NULL: unknown       */
	uint32_t item, record;    /* bytes an element and a row; 0: none                */
	bool mixed, tables;       /* filters seldom suit such a file                    */

	uint32_t period;          /* item size found in the bytes, 0: none              */
	uint32_t permille;        /* stored bytes to expect of 1000                     */
	size_t looked;            /* bytes of the sample                                */
	uint64_t again;           /* choose again when so many more bytes are written   */
	struct tune_glance glance; /* at the sample, for tune_still_good                */
	uint32_t patience;        /* doublings of that one's tolerance: grows when choosing
				     again changed nothing                              */
	unsigned ntried;          /* of `tried`, the best first                         */
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

/*
 * For bytes that are too few to choose for, which get no filter: raises the level of *out, that of
 * the goal's base, to what suits text.
 */
void tune_unseen(const struct tune_goal *goal, struct pipeline *out);

/*
 * Candidate number i of all that tune_choose may come to for this goal, for trying every one of
 * them. `item`: a size of items or records beside the usual ones, 0: none. False past the last.
 */
bool tune_candidate(const struct tune_goal *goal, uint32_t item, unsigned i, struct pipeline *out);

/*
 * False: it is time to choose again before `next` is encoded, as it looks different from what the
 * choice was made for, or as `since`, the bytes encoded since then, are too many. True also where
 * `next` is so little, beside the sample of that choice, that another one does not pay. Takes a few
 * microseconds.
 */
bool tune_still_good(struct scratch *s, const struct tune_report *report, uint64_t since,
		     struct view next);

#endif
