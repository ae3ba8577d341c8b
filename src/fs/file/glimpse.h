/*
 * Which blocks a small random read has seen a part of lately. Such a read decodes no more of its
 * block than it must, and keeps nothing; whoever comes back finds the block noted here, and then
 * all of it is decoded and cached.
 *
 * A part spares half of a block's time, and was in vain if the block is wanted again. So parts are
 * decoded while fewer than a quarter of the reads come back to a block.
 *
 * Threads: any, without a lock. A note that is lost costs one more part.
 */
#ifndef FS_FILE_GLIMPSE_H
#define FS_FILE_GLIMPSE_H

#include "base/bytes.h"

#include <stdatomic.h>

#define GLIMPSES 4096

struct glimpses {
	atomic_uint note[GLIMPSES]; /* half a hash of the block that was seen last; 0: none */
	atomic_int back;            /* the share of reads that come back                    */
	atomic_int cached;          /* the share of small reads whose block was in the cache */
};

/* Of a read of a block, cached or not. True: a part of it will do. */
bool glimpse(struct glimpses *g, uint64_t owner, uint32_t block, bool cached);

/*
 * Of a small read that went by way of the cache. True: it has come back to a block, as so many did
 * lately that more are likely to follow (ops/push.h). They do not come here any more once the
 * kernel has the block, so that at most half of the reads are seen to come back then.
 */
bool glimpse_again(struct glimpses *g, bool cached);

#endif
