/*
 * How the chunks of a file are encoded: by what the mount says, by what the
 * frame's own chunks are, or, when nobody said anything, by looking at the data.
 *
 * The reference library counts a super-chunk in items of the header's
 * type_size, which is 1 when the length of the file is not whole items, and
 * then refuses slices that cut an item of a chunk whose own typesize is larger
 * (measured with 3.3.5). So a file whose length is no multiple gets chunks of
 * typesize 1, in which the item size stands in the parameter of the shuffle filter: the same
 * bytes before the codec, but in one stream instead of one an item byte, which
 * costs some ratio. That is why whole items keep the ordinary form.
 *
 * The reference keeps its buffers from chunk to chunk while the block size stays
 * the same, although they have to be larger for a larger typesize, and writes past them
 * (measured with 3.3.5). So one file has chunks of one item size at most, `items`, whose
 * blocks are multiples of it, and all its other chunks have typesize 1 and blocks that
 * never are.
 *
 * Choices are made in the order in which chunks were handed to the workers, whoever gets there
 * first: each has a turn, and waits for those before it. So a file's frame depends on its bytes
 * alone, as long as they come in the same order.
 */
#ifndef FS_POLICY_H
#define FS_POLICY_H

#include "codec/tune.h"
#include "frame/frame.h"
#include "fs/options.h"

#include <pthread.h>

struct policy {
	/* of chunks that are not of typesize 1; 1: none are; 0: not known yet */
	uint32_t items;
	bool tuned;           /* the data decides */
	enum tune_aim aim;
	struct pipeline base; /* codec and level of a choice */
	bool free_level, free_blocksize;
	bool auto_level;      /* the level is that of the moment, not the pipeline's */

	pthread_mutex_t lock; /* for what follows */
	struct pipeline pipeline; /* of the chunks to come, in items */
	bool chosen;          /* by looking at data */
	bool first;           /* for an empty file, and not told yet */
	uint64_t since;       /* bytes encoded since */
	struct tune_report report;
	uint64_t given, now;  /* turns: handed out, and whose it is */
	pthread_cond_t next;  /* it is another's */
};

void policy_init(struct policy *p);
void policy_deinit(struct policy *p);

/* From the frame that was opened; an empty one follows the mount. No chunk is being encoded. */
void policy_follow(struct policy *p, const struct options *o, struct frame *f);

/* What the frame's header says before there is data. */
struct pipeline policy_for_header(const struct options *o);

/* A chunk that is about to be encoded. */
struct policy_chunk {
	struct view plain;
	uint64_t turn;
	uint64_t offset; /* in the file */
	uint64_t file_size;  /* as far as is known */
	uint32_t chunk_size;
};

/*
 * A turn for a chunk that goes to the workers, in the order of
 * the calls. Each has to be ended by one of the next two.
 */
uint64_t policy_turn(struct policy *p);

/* For a chunk that needs no choice, or gives its turn up. Waits. Nothing, when the turn is over. */
void policy_pass(struct policy *p, uint64_t turn);

/*
 * Its pipeline, ready for chunk_encode. Any number of
 * workers. Waits for its turn, unless that is over.
 */
NODISCARD int policy_choose(struct policy *p, struct scratch *s, const struct policy_chunk *c,
			    struct pipeline *out);

/*
 * What a chunk brings along that is copied as it is stored: the item size of the chunks around it,
 * and the pipeline of its frame.
 */
struct policy_origin {
	uint32_t items;
	struct pipeline pipeline;
};
void policy_lend(struct policy *p, struct frame *f, struct policy_origin *out);

/* A stored chunk and the file that it would come into. */
struct policy_guest {
	const struct policy_origin *origin;
	uint32_t typesize, blocksize; /* of the chunk */
	uint64_t file_size;           /* with it */
	uint32_t chunk_size;
	bool first; /* the file has no chunk yet */
};

/*
 * True: the chunk can stand among those of the file. *adopted: the file had no item size yet, and
 * goes on with that and the pipeline of the origin. No chunk is being encoded.
 */
bool policy_admit(struct policy *p, const struct policy_guest *g, bool *adopted);

/* The pipeline of the chunks to come, as a frame's header would name it. */
struct pipeline policy_header(struct policy *p);

/* True once: a first choice was made for an empty file, which its header shall name. */
bool policy_first_choice(struct policy *p, struct pipeline *out);

/* True: a file of so many bytes has to have its chunks of items made bytewise. */
bool policy_wants_bytewise(struct policy *p, uint64_t size, uint32_t chunk_size);

#endif
