/*
 * The fast LZ4 encoder: streams (FORMAT.md 6.2) for levels 1 to 9 of "lz4".
 *
 * The library takes every match of four bytes. Most of those save a byte or two, and cost the
 * decoder a sequence, whose branches cannot be predicted. Here a match has at least five bytes;
 * what this costs in size is regained by searching more positions. The stream is about as long, and
 * has fewer sequences.
 */
#ifndef CODEC_CODECS_LZ4_FAST_H
#define CODEC_CODECS_LZ4_FAST_H

#include "base/bytes.h"

#include <sys/types.h>

/* Either table takes 16 KiB: half of the L1 cache, which leaves the rest for the stream. */
#define LZ4_NEAR_LOG 13
#define LZ4_FAR_LOG 12

struct lz4_table {
	/* The last position of each hash: for streams up to 64 KiB, and for longer ones. */
	union {
		uint16_t near[1 << LZ4_NEAR_LOG];
		uint32_t far[1 << LZ4_FAR_LOG];
	};
};

/*
 * Returns the length of the payload; 0: it does not fit into dst. The table need not be
 * initialised. Callers use put_lz4 of kernels.h, the fastest build for this CPU; all builds write
 * the same bytes.
 */
ssize_t lz4_fast(struct lz4_table *t, int level, struct view src, struct span dst);
ssize_t lz4_fast_avx2(struct lz4_table *t, int level, struct view src, struct span dst);

#endif
