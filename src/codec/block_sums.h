/*
 * A checksum for each block, stored inside a regular chunk of two or more blocks. FORMAT.md 3.8:
 *
 *   header | bstarts | [dictionary] | table | blocks, in order, without gaps
 *
 *   table:  "CFS1"
 *           nblocks x u32   low half of XXH3-64 of the stored bytes of the block
 *           u32             the same for all bytes of the chunk before this word: its head
 *
 * Other readers see a gap before the first block and skip it. We recognise the table by its place,
 * since it fills that gap exactly, and by its first word; no other writer leaves a gap there. With
 * the head of a chunk, its blocks can thus be checked one by one.
 */
#ifndef CODEC_BLOCK_SUMS_H
#define CODEC_BLOCK_SUMS_H

#include "codec/chunk.h"

/* The length of a table. 0: a chunk of so few blocks has none. */
size_t block_sums_len(uint32_t nblocks);

/* The checksum of a block's stored bytes. */
uint32_t block_sums_of(struct view block);

/* Enters the checksum of block i into the table at `table`. */
void block_sums_put(uint8_t *table, uint32_t i, uint32_t sum);

/* Completes the table at offset `at` of the chunk, once all bytes before it are final. */
void block_sums_seal(uint8_t *chunk, size_t at, uint32_t nblocks);

/* Compares the stored bytes of block i with its checksum, if it has one. -EBADMSG: they differ. */
NODISCARD int block_sums_check(const struct chunk *c, uint32_t i, struct view block);

/*
 * For chunk_parse, if the blocks are stored in order from bstart[0] on: loads the table at offset
 * `at` into *c if there is one. A result > 0 is the number of leading bytes that must be visible.
 */
NODISCARD int block_sums_load(struct chunk *c, struct view head, uint64_t at);

#endif
