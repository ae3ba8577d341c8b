/*
 * The search of LZ4 that writes fast: its streams (FORMAT.md 6.2) for level 1 to 9 of "lz4".
 *
 * The library's takes every match of four bytes. Most of these spare a byte or two and cost the
 * decoder a sequence, whose branches nobody can predict. Here a match has five bytes or more, and
 * what that loses is made good by looking at more places: a stream of about the same length, of
 * fewer sequences.
 */
#ifndef CODEC_CODECS_LZ4_FAST_H
#define CODEC_CODECS_LZ4_FAST_H

#include "base/bytes.h"

#include <sys/types.h>

/* Both have 16 KiB: half of L1, beside the stream. */
#define LZ4_NEAR_LOG 13
#define LZ4_FAR_LOG 12

struct lz4_table {
	/* The last place of each hash: of streams up to 64 KiB, and of longer ones. */
	union {
		uint16_t near[1 << LZ4_NEAR_LOG];
		uint32_t far[1 << LZ4_FAR_LOG];
	};
};

/*
 * The length of the payload, or 0: does not fit into dst. The table needs no preparation.
 * Use kernels.h's put_lz4, which is the fastest build of it; all write the same bytes.
 */
ssize_t lz4_fast(struct lz4_table *t, int level, struct view src, struct span dst);
ssize_t lz4_fast_avx2(struct lz4_table *t, int level, struct view src, struct span dst);

#endif
