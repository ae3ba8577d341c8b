/*
 * How the chunks of a file are encoded: by the settings (settings.h) and the wishes for the file
 * (wish.h), like the chunks that the frame has, or, if nothing was said, by looking at the data.
 *
 * Three faults of the reference library (measured with 3.3.5) limit the typesize of a chunk:
 *
 * - It counts a super-chunk in items of the header's type_size, which is 1 when the length of the
 *   file is not whole items, and then refuses slices that cut an item of a chunk whose own typesize
 *   is larger. So such a file gets chunks in *bytewise* form: with typesize 1, and the item size in
 *   the parameter of the shuffle filter. The codec gets the same bytes, but as one stream instead
 *   of one for each byte of an item, which costs some ratio. Hence whole items keep the ordinary
 *   form. Delta has no other: under it, named by the user or by the frame of another program, those
 *   slices are refused. Where the header says 1 to stay, what is written under delta with an item
 *   size in a filter has no filters instead.
 *
 * - It keeps its buffers from chunk to chunk while the block size stays the same, and for slices
 *   while it does not grow, although a larger typesize needs larger ones (4 bytes more for each
 *   byte of an item), and writes past them. So a file has chunks of one item size at most, `items`,
 *   with blocks that are multiples of it; its other chunks have typesize 1, and blocks of one byte
 *   less. So have holes where the header says 1: it makes them of what that says (frame_items.c).
 *
 * - It opens no chunk of a repeated value lazily that is not as wide as the header's items. We
 *   write none.
 *
 * Where the reference itself changes a file whose header says 1 for its length, it writes chunks
 * that break the last two rules once the header has its items again: these are stored anew then, in
 * files of up to 16 MiB (fs/file/refit.h).
 *
 * Choices are made in the order in which chunks were handed to the workers: each chunk has a turn,
 * and waits for those before it. That is the order in which they lie in the file, unless it is
 * written here and there (flush.h). So the frame depends on the bytes of the file, and not on which
 * thread or worker is faster.
 */
#ifndef FRAME_POLICY_POLICY_H
#define FRAME_POLICY_POLICY_H

#include "codec/tune/tune.h"
#include "frame/frame.h"
#include "frame/policy/settings.h"

#include <pthread.h>

struct policy {
	/* by the settings: policy_follow */
	bool tuned;           /* the tuner chooses by the data */
	enum tune_aim aim;
	struct pipeline base; /* codec and level that the tuner starts from */
	bool free_level, free_blocksize; /* nobody named these: the tuner may change them */
	bool level_auto;      /* the level follows the load, by the caller */

	pthread_mutex_t lock; /* for what follows, except in policy_follow */
	/* item size of the chunks whose typesize is not 1; 1: there are none; 0: not known yet */
	uint32_t items;
	bool in_bytes; /* the header's type_size is 1 to stay: so no chunk has another, either */
	struct pipeline pipeline; /* of the chunks to come; its typesize is the item size */
	bool chosen;          /* `pipeline` was chosen by looking at data, as in `report` */
	bool first;           /* ... for an empty file, whose header does not name it yet */
	uint64_t since;       /* bytes encoded since that choice */
	struct tune_report report;
	uint64_t given, now;  /* turns: the next to be handed out, and the one that may choose */
	pthread_cond_t next;  /* `now` has changed */
};

void policy_init(struct policy *p);
void policy_deinit(struct policy *p);

/*
 * Starts from an open frame: an empty one follows the settings, others keep their pipeline. Not
 * while a chunk is being encoded.
 */
void policy_follow(struct policy *p, const struct settings *s, struct frame *f);

/* The pipeline that the header of a frame without data names. */
struct pipeline policy_for_header(const struct settings *s);

/* A chunk that is about to be encoded. */
struct policy_chunk {
	struct view plain;
	uint64_t turn;
	uint64_t offset;    /* in the file */
	uint64_t file_size; /* as far as is known */
	uint32_t chunk_size;
};

/* A turn for a chunk that is handed to the workers: policy_pass or policy_choose has to end it. */
uint64_t policy_turn(struct policy *p);

/* Waits for the turn and ends it without a choice. Does nothing if it has ended. */
void policy_pass(struct policy *p, uint64_t turn);

/*
 * Waits for the chunk's turn, unless it has ended, and ends it. *out is the chunk's pipeline, ready
 * for chunk_encode.
 */
NODISCARD int policy_choose(struct policy *p, struct scratch *s, const struct policy_chunk *c,
			    struct pipeline *out);

/*
 * The file from which a chunk is copied in its stored form: the item size of its chunks, and its
 * pipeline. policy_lend fills it in for the file of policy `p` and frame `f`.
 */
struct policy_origin {
	uint32_t items;
	struct pipeline pipeline;
};
void policy_lend(struct policy *p, struct frame *f, struct policy_origin *out);

/* A stored chunk that is to be copied into a file. */
struct policy_guest {
	const struct policy_origin *origin;
	uint32_t typesize, blocksize; /* of the chunk */
	uint64_t file_size;           /* of the file, with the chunk */
	uint32_t chunk_size;
	bool first; /* the file has no chunk yet */
};

/*
 * True: the chunk may stand in the file, by the rules above. *adopted: the file had no item size
 * yet and has taken over that of the origin, with its pipeline. Not while a chunk is being encoded.
 */
bool policy_admit(struct policy *p, const struct policy_guest *g, bool *adopted);

/* The pipeline of the chunks to come, in the form in which a header names it. */
struct pipeline policy_header(struct policy *p);

/*
 * The same for blocks that get a place among those of a stored chunk with these filters. A level
 * above the base's was chosen for bytes that no filter helps, as the first ones of the file were.
 */
struct pipeline policy_beside(struct policy *p, const uint8_t filter[FILTER_SLOTS]);

/*
 * How long the only block of a chunk without items may become. 0: the file has chunks of items,
 * beside which not every length is allowed.
 */
uint32_t policy_block_most(struct policy *p);

/* True once, after the first choice for an empty file: *out is what its header shall name. */
bool policy_first_choice(struct policy *p, struct pipeline *out);

/* True: in a file of `size` bytes chunks of whole items must be encoded anew with typesize 1. */
bool policy_wants_bytewise(struct policy *p, uint64_t size, uint32_t chunk_size);

#endif
