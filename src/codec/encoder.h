/*
 * A chunk being encoded, for the code that encodes its blocks: one after the other (chunk_encode.c)
 * or in parallel (parallel.c). Internal to this layer.
 *
 * The order of calls: encoder_plan, encoder_plan_cuts; each block into a span of encoder_slot
 * bytes; then the blocks, contiguously from encoder_body on, with encoder_enter for each; then
 * encoder_finish. If they take more than encoder_most bytes in all: encoder_store instead.
 *
 * A block is encoded without knowing its offset in the chunk, so its bytes depend on nothing else.
 */
#ifndef CODEC_ENCODER_H
#define CODEC_ENCODER_H

#include "base/buf.h"
#include "codec/block.h"

/* Borrows everything it points at. Helper threads replace `s` by a scratch of their own. */
struct encoder {
	struct scratch *s;
	struct pipeline p; /* checked by pipeline_check        */
	struct view src;   /* all bytes of the chunk           */
	uint32_t blocksize, nblocks;
	struct view dict;         /* the chunk's dictionary; empty: none */
	bool split;               /* full blocks: a stream for each byte of an item */
	uint8_t meta[FILTER_SLOTS]; /* as stored: 0 replaced by what it stands for */
	struct block_plan plan;
};

/*
 * Decides how `src`, 1 .. CHUNK_MAX_NBYTES bytes, is divided into blocks and how these are encoded.
 * Fails with -ENOMEM only.
 */
NODISCARD int encoder_plan(struct encoder *e, struct scratch *s, const struct pipeline *p,
			   struct view src);

/* For a codec that cuts streams: decides where, by looking at one block. -ENOMEM. */
NODISCARD int encoder_plan_cuts(struct encoder *e);

/*
 * True: in chunks of several blocks each byte of an item gets a stream of its own (FORMAT.md 3.3).
 */
bool encoder_splits(const struct pipeline *p);

/* True: encoding is not worth trying; use encoder_store. */
bool encoder_wants_store(const struct encoder *e);

/* The bytes of block i; *b: its description for block.h. */
struct view encoder_block(const struct encoder *e, uint32_t i, struct block *b);

size_t encoder_slot(const struct encoder *e);  /* room for any encoded block */
size_t encoder_body(const struct encoder *e);  /* offset of the first block in the chunk */
size_t encoder_most(const struct encoder *e);  /* if the chunk gets longer, use encoder_store */

/* The checksum of an encoded block; 0: blocks have none. */
uint32_t encoder_sum(const struct encoder *e, struct view block);

/* Records that block i, with this checksum, begins at the present end of `out`. */
void encoder_enter(const struct encoder *e, uint32_t i, uint32_t sum, struct buf *out);

/*
 * Writes what precedes the blocks, except their offsets, which are there already. The chunk's
 * length is out->n.
 */
void encoder_finish(const struct encoder *e, struct buf *out);

/*
 * Stores the bytes uncompressed (FORMAT.md 3.9). `out` must have room for encoder_store_most bytes.
 */
size_t encoder_store_most(const struct encoder *e);
void encoder_store(const struct encoder *e, struct buf *out);

#endif
