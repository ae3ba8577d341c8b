/*
 * Remembers which blocks a small random read has recently seen a part of. Such a read decodes no
 * more of its block than it must, and caches nothing. The next read of the same block finds it
 * noted here, and decodes and caches all of it.
 *
 * Decoding only a part saves half of the time for a block, and is wasted if the block is wanted
 * again. So parts are decoded only while fewer than a quarter of the reads come back to a block.
 *
 * Any thread, without a lock. A note that is lost costs one more partial decode.
 */
#ifndef FS_READ_GLIMPSE_H
#define FS_READ_GLIMPSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GLIMPSES 4096

struct glimpses {
	atomic_uint note[GLIMPSES]; /* half of the hash of the last block seen; 0: none      */
	atomic_int back;            /* running share of the reads that come back            */
	atomic_int cached;          /* running share of small reads whose block was cached  */
};

/* Notes a read of a block. True: decoding a part of it is enough. */
bool glimpse_is_enough(struct glimpses *g, uint64_t owner, uint32_t block, bool cached);

/*
 * Notes a small read that went through the cache. True: it has come back to a block, and enough
 * reads did so lately that more are likely to follow (ops/push.h). Once the kernel has a block,
 * reads of it no longer get here, so at most half of the reads are seen to come back.
 */
bool glimpse_came_back(struct glimpses *g, bool cached);

#endif
