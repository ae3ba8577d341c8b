/*
 * Bytes of a file <-> chunks of one size. Pure arithmetic, and the only place
 * that divides an offset by the chunk size:
 *
 *   struct range r = range_of(offset, length, chunk_size);
 *   struct piece p;
 *   while (range_next(&r, &p))
 *           bytes p.lo .. p.hi - 1 of chunk p.chunk
 */
#ifndef FRAME_RANGE_H
#define FRAME_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct range {
	uint64_t at, end;
	uint32_t chunk_size;
};

struct piece {
	uint32_t chunk;
	uint32_t lo, hi; /* lo < hi <= chunk_size */
};

/* at + len must not overflow, and no byte may be beyond chunk 2^32 - 1. */
struct range range_of(uint64_t at, uint64_t len, uint32_t chunk_size);

/* False: no more. Pieces come in order and without gaps. */
bool range_next(struct range *r, struct piece *p);

/* The chunk that holds byte `at`, and where in it; 0: at its start. */
uint32_t range_chunk(uint64_t at, uint32_t chunk_size);
uint32_t range_within(uint64_t at, uint32_t chunk_size);

/* The number of chunks that hold nbytes; the last may be short. */
uint64_t range_nchunks(uint64_t nbytes, uint32_t chunk_size);

#endif
