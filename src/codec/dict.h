/* A dictionary for one chunk, made from samples of what its streams will hold. */
#ifndef CODEC_DICT_H
#define CODEC_DICT_H

#include "base/buf.h"
#include "codec/block.h"

/* A chunk on its way in. */
struct encoder {
	struct scratch *s;
	const struct pipeline *p;
	struct view src;
	uint32_t blocksize, nblocks;
	bool split;
	uint8_t meta[FILTER_SLOTS]; /* as stored: what 0 stands for put in its place */
	struct block_plan plan;
};

/* Block i of the source, and what block.h needs to know about it. */
struct view encoder_block(const struct encoder *e, uint32_t i, struct block *b);

/* Leaves dict empty when the chunk is too small to gain from one. */
NODISCARD int dict_make(const struct encoder *e, struct buf *dict);

#endif
