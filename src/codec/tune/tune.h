/*
 * The tuner: looks at data and chooses how to encode it (item size, filters, block size), or finds
 * that nothing helps.
 *
 * It has two sources. The first bytes of a file may be a header that says what follows
 * (tune/head.c, a row for each format). And it samples the data: order-0 entropies narrow many
 * candidates down to a few, and trials with the real filters decide between those, with the real
 * codec or, for zstd, with an estimate of its output. A header only breaks near ties: it describes
 * most of the file, the samples describe the bytes at hand.
 *
 * The result depends only on the arguments. It takes a quarter of a millisecond for zstd, one or
 * two milliseconds for codecs that have to encode the samples, and no memory besides the scratch's
 * buffers. Only if much of a chunk repeats far away (tune/repeat.c), up to 1 MiB of it is encoded
 * twice, at the goal's level; and, if the aim is size and no filter helps, one block.
 */
#ifndef CODEC_TUNE_TUNE_H
#define CODEC_TUNE_TUNE_H

#include "codec/pipeline.h"
#include "codec/scratch.h"

#include <stdbool.h>

enum tune_aim { TUNE_BALANCED, TUNE_SIZE, TUNE_SPEED };

struct tune_goal {
	enum tune_aim aim;
	bool free_codec;      /* codec and level may be chosen, too                    */
	bool free_blocksize;  /* the same for blocksize                                */
	uint32_t whole;       /* item size of the file; others are written bytewise (policy.h). 0:
				 not set yet, so any will do */
	struct pipeline base; /* checked by pipeline_check; what is not free is kept   */
};

struct tune_input {
	struct view sample; /* the bytes to encode, preferably a whole chunk           */
	uint64_t offset;    /* in the file. 0: the sample may begin with the file's header; else
			       the hint in *report is kept */
};

#define TUNE_TRIED_MAX 24

/*
 * Longer items are never chosen: their size would be the parameter of a filter in the header of the
 * frame, which the reference's Python wrapper (4.14.1) reads as a signed byte, and then it does not
 * open the frame.
 */
#define TUNE_ITEM_MAX 127

/* A pipeline that was tried on samples. */
struct tune_trial {
	struct pipeline pipeline;
	uint32_t sampled, stored; /* bytes before and after                            */
	uint32_t score;           /* what is compared; smaller is better                */
};

/* The entropies of a glance; BY_PLACE: for each position in an item separately. */
enum tune_entropy {
	TUNE_BYTES,
	TUNE_DIFFERENCES,
	TUNE_BYTES_BY_PLACE,
	TUNE_DIFFERENCES_BY_PLACE,
	TUNE_ENTROPIES,
};

/*
 * What a chunk looks like at a glance: the entropies of a few pieces of it, in 1/256 bit per byte.
 */
struct tune_glance {
	uint32_t item; /* item size in bytes */
	uint32_t bits[TUNE_ENTROPIES];
	uint32_t lead; /* the advantage of the best filter for usual items over the chosen one */
	uint32_t busy; /* how many of 1024 places are not a run of one byte; 1024: not counted */
};

/* What the header of a file says about the bytes after it; sizes are at most TUNE_ITEM_MAX. */
struct tune_hint {
	const char *format; /* NULL: no known header                             */
	uint32_t item;      /* bytes per element; 0: it does not say             */
	uint32_t record;    /* bytes per row of several elements; 0: none        */
	bool mixed;         /* code, or pages of various kinds: filters seldom help */
	bool tables;        /* as mixed, but blocks as large as for text may help */
};

struct tune_report {
	struct tune_hint hint;
	uint32_t period;          /* item size found in the bytes, 0: none              */
	uint32_t permille;        /* expected stored bytes per 1000                     */
	size_t looked;            /* bytes of the sample                                */
	uint64_t again;           /* choose again after this many more bytes            */
	uint64_t no_repeats;      /* file offset before which no chunk is encoded whole for repeats:
				     it did not pay */
	struct tune_glance glance; /* at the sample, for tune_still_good                */
	uint32_t patience;        /* how often the tolerance of tune_still_good was doubled, since
				     choosing again changed nothing */
	unsigned ntried;          /* of `tried`, best first                             */
	struct tune_trial tried[TUNE_TRIED_MAX];
};

/*
 * Sets *out to the pipeline for the sample and the bytes after it in the file. It passes
 * pipeline_check; its level is 0 if encoding is not worth the time. Its typesize may be any number
 * up to TUNE_ITEM_MAX. If a chunk or the file ends inside an item, the caller writes the items
 * bytewise (policy.h); all filters that can be chosen (shuffle, bitshuffle, bytedelta) allow that.
 *
 * If the sample is too short, *out is the base unchanged. The caller zeroes *report before the
 * first choice for a file, and keeps it for the next one. Fails with -ENOMEM only.
 */
NODISCARD int tune_choose(struct scratch *s, const struct tune_goal *goal,
			  const struct tune_input *in, struct pipeline *out,
			  struct tune_report *report);

/* Smaller chunks take less time to encode than to choose for, and for most no filter is found. */
#define TUNE_MIN (32u << 10)

/*
 * True: even though the file is smaller than that, a choice is worth its time, since it holds
 * numbers: at a glance the best filter saves a twentieth. Takes five microseconds.
 */
bool tune_stands_out(struct scratch *s, struct view file);

/*
 * For data that gets no filter, such as what is too short to choose for: raises the level of *out,
 * if that is the lowest and the goal leaves it free, to one suited to text.
 */
void tune_raise_level(const struct tune_goal *goal, struct pipeline *out);

/*
 * The i-th of all candidates that tune_choose may choose for this goal, with usual block sizes and
 * the base's level, so that all can be tried. `item`: an item or record size besides the usual
 * ones; 0: none. False past the last.
 */
bool tune_candidate(const struct tune_goal *goal, uint32_t item, unsigned i, struct pipeline *out);

/*
 * False: choose again before `next` is encoded, because it looks different from the data of the
 * choice, or because too many bytes (`since`) have been encoded since then. True also if `next` is
 * so short, compared with the sample of that choice, that another would not pay. Takes a few
 * microseconds.
 */
bool tune_still_good(struct scratch *s, const struct tune_report *report, uint64_t since,
		     struct view next);

#endif
