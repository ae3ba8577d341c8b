/*
 * A checksum for each block, inside of a regular chunk with two blocks or more. FORMAT.md 3.8:
 *
 *   header | bstarts | [dictionary] | table | blocks, in order, without gaps
 *
 *   table:  "CFS1"
 *           nblocks x u32   low half of XXH3-64 of the stored bytes of the block
 *           u32             the same of the chunk's bytes in front of this word: its head
 *
 * Other readers see a gap. A reader knows the table by its place, which is all that lies in front
 * of the first block, and by its first word: nobody else leaves a gap there. So whoever has the
 * head of a chunk can judge its blocks one by one.
 */
#ifndef CODEC_CHUNK_SUMS_H
#define CODEC_CHUNK_SUMS_H

#include "codec/chunk.h"

/* Bytes of a table; 0: so few blocks get none. */
size_t chunk_sums_len(uint32_t nblocks);

uint32_t chunk_sums_of(struct view block);

/* Enters the sum of block i into the table at `table`. */
void chunk_sums_put(uint8_t *table, uint32_t i, uint32_t sum);

/* The rest, once all in front of the table is final: it is at `at` of the chunk. */
void chunk_sums_seal(uint8_t *chunk, size_t at, uint32_t nblocks);

/* The stored bytes of block i of a chunk, against its checksum if it has one. */
NODISCARD int chunk_sums_check(const struct chunk *c, uint32_t i, struct view block);

/*
 * For chunk_parse, with blocks that lie in order from bstart[0] on: takes the table at `at` into
 * *c, if there is one. > 0: so many leading bytes have to be seen.
 */
NODISCARD int chunk_sums_load(struct chunk *c, struct view head, uint64_t at);

#endif
