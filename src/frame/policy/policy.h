/*
 * How the chunks of a file are encoded: by the settings (settings.h) and the wishes for the file
 * (wish.h), like the chunks that the frame has, or, if nothing was said, chosen by looking at the
 * data.
 *
 * Four faults of the reference library (measured with 3.3.5) limit the typesize of a chunk:
 *
 * - It counts a super-chunk in items of the header's type_size, which is 1 if the length of the
 *   file is not a whole number of items, and then refuses slices that cut an item of a chunk whose
 *   own typesize is larger. So such a file gets chunks in *bytewise* form: with typesize 1, and the
 *   item size in the parameter of the shuffle filter. The codec gets the same bytes, but as one
 *   stream instead of one for each byte of an item, which costs some ratio. Hence files of whole
 *   items keep the ordinary form. Delta has no bytewise form: if the user or another program's
 *   frame asks for it, those slices are refused. Where the header will keep saying 1, what would
 *   have been written with delta and an item size is written without filters.
 *
 * - It reuses its buffers from chunk to chunk while the block size stays the same, and for slices
 *   while it does not grow, although a larger typesize needs larger ones (4 bytes more for each
 *   byte of an item), and writes past them. So a file has chunks of one item size at most, `items`,
 *   with blocks that are multiples of it; its other chunks have typesize 1, and blocks of one byte
 *   less. So do holes where the header says 1: the reference makes them from the header
 *   (frame_items.c).
 *
 * - Before 3.3.2 it gives wrong bytes for slices of chunks of typesize 1 in a file of larger items,
 *   and writes past its buffers. So chunks without filters, to which an item size means nothing,
 *   have that of the file.
 *
 * - It cannot lazily open a chunk of a repeated value whose width is not that of the header's
 *   items. We write none.
 *
 * When the reference itself changes a file whose header says 1 because of its length, it writes
 * chunks that break the second and the last rule once the header has its items again: those are
 * then rewritten, in files of up to 16 MiB (fs/file/refit.h).
 *
 * Choices are made in the order in which chunks were handed to the workers: each chunk has a turn,
 * and waits for those before it. That is the order of their offsets, unless the file is written at
 * random (flush.h). So the frame depends only on the bytes of the file, not on which thread is
 * faster.
 */
#ifndef FRAME_POLICY_POLICY_H
#define FRAME_POLICY_POLICY_H

#include "codec/tune/tune.h"
#include "frame/frame.h"
#include "frame/policy/settings.h"

#include <pthread.h>

struct policy {
	/* from the settings: policy_follow */
	bool tuned;            /* the tuner chooses by looking at the data */
	struct tune_goal goal; /* what it is told; `whole` is set for each choice */
	bool level_auto;       /* the level follows the load; the caller sets it */

	pthread_mutex_t lock; /* for all below, except in policy_follow */
	/* item size of the chunks whose typesize is not 1; 1: there are none; 0: unknown yet */
	uint32_t items;
	bool in_bytes; /* the header's type_size will stay 1, so all new chunks have typesize 1 */
	struct pipeline pipeline; /* of new chunks; its typesize is the item size */
	bool chosen;          /* `pipeline` was chosen by looking at data, as in `report` */
	bool unnamed;         /* the header does not name `first` yet */
	struct pipeline first; /* what was chosen for the file's first data */
	uint64_t since;       /* bytes encoded since that choice */
	struct tune_report report;
	uint64_t given, now;  /* turns: the next to hand out, and the one that may choose */
	pthread_cond_t next;  /* `now` has changed */
};

void policy_init(struct policy *p);
void policy_deinit(struct policy *p);

/*
 * Starts from an open frame: an empty one follows the settings, others keep their pipeline. Must
 * not be called while a chunk is being encoded.
 */
void policy_follow(struct policy *p, const struct settings *s, struct frame *f);

/* The pipeline to name in the header of a frame without data. */
struct pipeline policy_for_header(const struct settings *s);

/* A chunk that is about to be encoded. */
struct policy_chunk {
	struct view plain;
	uint64_t turn;
	uint64_t offset;    /* in the file */
	uint64_t file_size; /* as far as is known */
	uint32_t chunk_size;
};

/*
 * Takes a turn for a chunk that is handed to the workers; policy_pass or policy_choose must end it.
 */
uint64_t policy_turn(struct policy *p);

/* Waits for the turn and ends it without a choice. No-op if it has ended already. */
void policy_pass(struct policy *p, uint64_t turn);

/*
 * Waits for the chunk's turn, unless that has ended already, chooses, and ends the turn. *out is
 * the chunk's pipeline, ready for chunk_encode.
 */
NODISCARD int policy_choose(struct policy *p, struct scratch *s, const struct policy_chunk *c,
			    struct pipeline *out);

/*
 * Describes the file from which a chunk is copied in stored form: the item size of its chunks, and
 * its pipeline. policy_lend fills it in for the file of policy `p` and frame `f`.
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
	uint64_t file_size;           /* of the target, including the chunk */
	uint32_t chunk_size;
};

/*
 * True: by the rules above, the file of policy `p` and frame `f` may have the chunk. If it had no
 * item size yet, it has taken over that of the origin, with its pipeline, which its header is to
 * name. Must not be called while a chunk is being encoded.
 */
bool policy_admit(struct policy *p, struct frame *f, const struct policy_guest *g);

/* The pipeline of new chunks, in the form for a header. */
struct pipeline policy_header(struct policy *p);

/*
 * The same for blocks that are put among those of a stored chunk with these filters. A level above
 * the base's was chosen for bytes that no filter helps, so it is lowered if the chunk has filters.
 */
struct pipeline policy_beside(struct policy *p, const uint8_t filter[FILTER_SLOTS]);

/*
 * The most bytes that the only block of a bytewise chunk may grow to. 0: the file has chunks of
 * items, so not every block size is allowed.
 */
uint32_t policy_block_most(struct policy *p);

/*
 * True once, after the first choice for an empty file: *out is that choice, which the header should
 * name. A later one may have another item size than the chunks of items.
 */
bool policy_first_choice(struct policy *p, struct pipeline *out);

/* True: in a file of `size` bytes, chunks of whole items must be encoded again with typesize 1. */
bool policy_wants_bytewise(struct policy *p, uint64_t size, uint32_t chunk_size);

#endif
