/*
 * A chunk on its way in, for those who encode its blocks: one after the other
 * (chunk_encode.c) or several at once (parallel.c). Floor-internal.
 *
 * encoder_init, then each block into a span of encoder_slot bytes, then the
 * blocks behind each other from encoder_body on, their offsets in the table behind the
 * header, then encoder_finish. More than encoder_limit bytes in all: encoder_store instead.
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
	bool split;               /* whole blocks, a stream each byte of an item */
	uint8_t meta[FILTER_SLOTS]; /* as stored: what 0 stands for put in its place */
	struct block_plan plan;
};

NODISCARD int encoder_init(struct encoder *e, struct scratch *s, const struct pipeline *p,
			   struct view src);

/* True: not worth a try, store it. */
bool encoder_wants_store(const struct encoder *e);

/* Block i of the source, and what block.h needs to know about it. */
struct view encoder_block(const struct encoder *e, uint32_t i, struct block *b);

size_t encoder_slot(const struct encoder *e);  /* bytes that any block fits into */
size_t encoder_body(const struct encoder *e);  /* where blocks begin, without a dictionary */
size_t encoder_limit(const struct encoder *e); /* one byte less than a plain copy */

/* The header in front of out->n bytes of chunk. */
void encoder_finish(const struct encoder *e, bool has_dict, struct buf *out);

/* A plain copy; out has room for encoder_limit + 1 bytes. */
void encoder_store(const struct encoder *e, struct buf *out);

#endif
