/*
 * A chunk on its way in, for those who encode its blocks: one after the other
 * (chunk_encode.c) or several at once (parallel.c). Floor-internal.
 *
 * encoder_init, then each block into a span of encoder_slot bytes, then the
 * blocks behind each other from encoder_body on, encoder_enter for each, then encoder_finish.
 * More than encoder_most bytes in all: encoder_store instead.
 * A block never knows where in the chunk it will lie, so that its bytes depend on nothing else.
 */
#ifndef CODEC_ENCODER_H
#define CODEC_ENCODER_H

#include "base/buf.h"
#include "codec/block.h"

/* Borrows all that it points at. Threads that help have a scratch of their own in its place. */
struct encoder {
	struct scratch *s;
	const struct pipeline *p; /* has passed pipeline_check        */
	struct view src;          /* all bytes of the chunk           */
	uint32_t blocksize, nblocks;
	uint32_t dict_len;        /* of the chunk's dictionary, 0: none */
	bool split;               /* whole blocks, a stream each byte of an item */
	uint8_t meta[FILTER_SLOTS]; /* as stored: what 0 stands for put in its place */
	struct block_plan plan;
};

NODISCARD int encoder_init(struct encoder *e, struct scratch *s, const struct pipeline *p,
			   struct view src);

/* The same without a look at the bytes: nothing is cut. */
NODISCARD int encoder_plan(struct encoder *e, struct scratch *s, const struct pipeline *p,
			   struct view src);

/* True: not worth a try, store it. */
bool encoder_wants_store(const struct encoder *e);

/* Block i of the source, and what block.h needs to know about it. */
struct view encoder_block(const struct encoder *e, uint32_t i, struct block *b);

size_t encoder_slot(const struct encoder *e);  /* bytes that any block fits into */
size_t encoder_body(const struct encoder *e);  /* where blocks begin */
size_t encoder_limit(const struct encoder *e); /* one byte less than a plain copy */
size_t encoder_most(const struct encoder *e);  /* that, or what plain blocks take */

/* The checksum of a block as encoded; 0: blocks get none. */
uint32_t encoder_sum(const struct encoder *e, struct view block);

/* Block i, with that checksum, begins at the end of `out`. */
void encoder_enter(const struct encoder *e, uint32_t i, uint32_t sum, struct buf *out);

/* What lies in front of the blocks of a chunk of out->n bytes, but for offsets and dictionary. */
void encoder_finish(const struct encoder *e, struct buf *out);

/* The bytes as they are, FORMAT.md 3.9; out has room for encoder_store_most bytes. */
size_t encoder_store_most(const struct encoder *e);
void encoder_store(const struct encoder *e, struct buf *out);

#endif
