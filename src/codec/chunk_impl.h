/* Shared by the files that implement chunk.h. */
#ifndef CODEC_CHUNK_IMPL_H
#define CODEC_CHUNK_IMPL_H

#include "codec/block.h"
#include "codec/chunk.h"

/* Places in the header; FORMAT.md 2.1. */
enum chunk_field {
	AT_VERSION = 0,
	AT_VERSIONLZ = 1,
	AT_FLAGS = 2,
	AT_TYPESIZE = 3,
	AT_NBYTES = 4,
	AT_BLOCKSIZE = 8,
	AT_CBYTES = 12,
	AT_FILTERS = 16,
	AT_UDCODEC = 22,
	AT_CODEC_META = 23,
	AT_METAS = 24,
	AT_FLAGS2 = 30,
	AT_BLOSC2_FLAGS = 31,
};

/* The byte at AT_FLAGS. FORMAT.md 2.2, also for the next one. */
#define FLAG_SHUFFLE 0x01
#define FLAG_STORED 0x02
#define FLAG_BITSHUFFLE 0x04
#define FLAG_EXTENDED 0x05 /* both: the header has 32 bytes */
#define FLAG_DELTA 0x08
#define FLAG_NO_SPLIT 0x10
#define FLAG_FORMAT_SHIFT 5

/* The byte at AT_BLOSC2_FLAGS. */
#define BLOSC2_DICT 0x01
#define BLOSC2_LAZY 0x08
#define BLOSC2_SPECIAL_SHIFT 4
#define BLOSC2_SPECIAL_MASK 7 /* special values, counted from 1 in the order of enum chunk_kind */
#define BLOSC2_INSTRUMENTED 0x80

/* The byte at AT_FLAGS2. */
#define FLAG2_VL 0x01

/* The byte at AT_VERSION; FORMAT.md 1.5. */
#define VERSION_BLOSC1 2
#define VERSION_ALPHA 3
#define VERSION_BETA 4
#define VERSION_NOW 5

/*
 * Bytes of a word: the offset of a block, after the header (FORMAT.md 3.2); the length of a
 * dictionary (4); the decoded length of a variable-length block (3.7).
 */
#define CHUNK_BSTART 4
#define CHUNK_DICT_SIZE 4
#define CHUNK_VL_SIZE 4

#define DICT_MAX 131072 /* old releases wrote up to this; we write at most DICT_MAX_WRITE */
#define DICT_MAX_WRITE 32768

/* Where the offset of block i is stored, after an extended header; i == nblocks: the end of all. */
static inline size_t bstart_place(uint32_t i)
{
	return CHUNK_HEAD + CHUNK_BSTART * (size_t)i;
}

/* The stored bytes of block i, within an extent that begins at byte `from` of the chunk. */
static inline struct view stored_block(const struct chunk *c, uint32_t i, struct view stored,
				       uint32_t from)
{
	return view_part(stored, c->bstart[i] - from, c->bend[i] - c->bstart[i]);
}

/* Sets up the plan for the blocks of a parsed chunk; the dictionary is left to the caller. */
NODISCARD int chunk_plan(struct block_plan *p, const struct chunk *c, struct scratch *s);

#endif
