/*
 * The checksum of a stored chunk that the root keeps (FORMAT.md 9.5): XXH3-64, with the lowest bit
 * replaced by what it covers. 1: the chunk's head, which contains checksums of the blocks
 * (codec/block_sums.h). 0: all bytes of the chunk. The root has to say which, because damage could
 * hide the checksums in the chunk. So a block that is read alone can be verified too: the root
 * vouches for the head, and the head for the block.
 */
#ifndef FRAME_CHUNK_SUM_H
#define FRAME_CHUNK_SUM_H

#include "codec/chunk.h"

#define CHUNK_SUM_NONE 0 /* no checksum is known */

static inline bool chunk_sum_is_of_head(uint64_t sum)
{
	return sum & 1;
}

/* For a chunk whose blocks have checksums: from the XXH3-64 of its head. */
static inline uint64_t chunk_sum_head(uint64_t hash)
{
	return hash | 1;
}

/* For any other chunk: from the XXH3-64 of all its bytes. */
static inline uint64_t chunk_sum_whole(uint64_t hash)
{
	return hash & ~1ull ? hash & ~1ull : 2;
}

/* The checksum for a chunk that is about to be written. */
uint64_t chunk_sum_make(struct view cchunk);

/*
 * Verifies the head from which *c was parsed. Returns 0 also if the checksum is of the whole chunk,
 * or unknown. -EBADMSG: they differ.
 */
NODISCARD int chunk_sum_check_head(uint64_t sum, const struct chunk *c, struct view head);

/* Verifies a whole chunk: by this checksum, if there is one, and by those of its blocks. */
NODISCARD int chunk_sum_check(uint64_t sum, struct view cchunk);

#endif
