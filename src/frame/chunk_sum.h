/*
 * What the root knows of a stored chunk (FORMAT.md 9.5), in 64 bits: XXH3-64 with the lowest bit
 * put to another use. 1: of the chunk's head, which has checksums of its blocks
 * (codec/chunk_sums.h). 0: of all its bytes. The root says which, since damage could hide the
 * checksums. So a block that is read alone can be judged, too: the root has the head's sum, the
 * head that of the block.
 */
#ifndef FRAME_CHUNK_SUM_H
#define FRAME_CHUNK_SUM_H

#include "codec/chunk.h"

#define CHUNK_SUM_NONE 0 /* not known */

static inline bool chunk_sum_is_of_head(uint64_t sum)
{
	return sum & 1;
}

/* Of a chunk whose blocks have checksums, from XXH3-64 of its head. */
static inline uint64_t chunk_sum_head(uint64_t hash)
{
	return hash | 1;
}

/* Of a whole chunk, from XXH3-64 of its bytes. */
static inline uint64_t chunk_sum_whole(uint64_t hash)
{
	return hash & ~1ull ? hash & ~1ull : 2;
}

/* Of a chunk that is about to be written. */
uint64_t chunk_sum_make(struct view cchunk);

/*
 * Of a chunk that was parsed from `head`: does that fit? 0 also where the sum is of all bytes, or
 * not known.
 */
NODISCARD int chunk_sum_check_head(uint64_t sum, const struct chunk *c, struct view head);

/* All bytes of a chunk: against the sum, if there is one, and against its own of its blocks. */
NODISCARD int chunk_sum_check(uint64_t sum, struct view cchunk);

#endif
