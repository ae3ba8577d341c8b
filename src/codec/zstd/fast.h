/*
 * Frames of Zstandard (RFC 8878) of levels 1 and 2, written fast: any reader of the format reads
 * them. The levels differ in how they search for matches, and in nothing else.
 *
 * The library spends two fifths of its time on matches. A look at the last offset and at one other
 * place, and longer leaps where nothing is found, give streams of the same length in about four
 * fifths of the time of its level 1; two tables do it in three quarters of that of its level 3,
 * which is what our level 2 stands for (FORMAT.md 6.4).
 */
#ifndef CODEC_ZSTD_FAST_H
#define CODEC_ZSTD_FAST_H

#include "base/bytes.h"
#include "codec/cuts.h"
#include "codec/kernels/kernels.h"
#include "codec/zstd/build.h"
#include "codec/zstd/fse.h"

#include <sys/types.h>

/* Longest streams of the two levels. From 128 KiB on the library's wider window is worth more. */
#define ZSTD_FAST_MAX (16u << 20)
#define ZSTD_DOUBLE_MAX (128u << 10)

/*
 * Each block has tables, which cost a reader time: that of text, which is 96 KiB, is not divided.
 * In more there might be more sequences than two bytes can tell.
 */
#define ZSTD_BLOCK_MAX (96u << 10)
#define ZSTD_NEAR_MAX (64u << 10) /* a stream whose places fit 16 bits */
#define ZSTD_MATCH_MIN 4
#define ZSTD_PLANE_LOG 13  /* 16 KiB: planes have little to remember */
#define ZSTD_DOUBLE_LOG 15 /* 128 KiB for both tables of level 2     */
#define ZSTD_SMALL_LOG 13  /* of which small streams use a quarter   */

/* Literals, and a match behind them; as the format stores the numbers (RFC 8878, 3.1.1.5). */
struct zstd_sequence {
	uint64_t literals : 17; /* how many                                           */
	uint64_t match : 17;    /* its length less three                              */
	uint64_t offset : 30;   /* its distance plus three; 1: the last distance, or, where
				   there are no literals, the one before              */
};

/* The same as it is written: codes for three states, and the bits that go behind these. */
struct zstd_coded {
	uint64_t extra;
	uint8_t literals, offset, match, nextra;
};

#define ZSTD_KINDS 3 /* of tables: numbers of literals, offsets, lengths of matches */

struct zstd_table {
	struct fse_shares shares;
	struct fse_table fse;
};

struct zstd_tree {
	unsigned n;         /* symbols up to the last that has a code */
	uint8_t len[256];   /* of the code in bits; 0: there is none */
	uint64_t code[256]; /* zstd/codes.h                   */
};

/* What an encoder of one thread works with. All but the first two need no preparation. */
struct zstd_work {
	bool (*put_codes)(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4]);
	unsigned built; /* bits: which of the predefined tables are; 0 at first */
	/* The last place of each hash, for one kind of search (zstd/impl.h). */
	union {
		uint16_t plane[1 << ZSTD_PLANE_LOG];
		uint16_t near[1 << 14];
		uint32_t far[1 << 14];
		struct {
			uint16_t by_short[1 << ZSTD_DOUBLE_LOG], by_long[1 << ZSTD_DOUBLE_LOG];
		} pair; /* by a hash of 4 or 5 bytes, and by one of 8 */
	};
	struct zstd_sequence sequence[ZSTD_BLOCK_MAX / ZSTD_MATCH_MIN + 1];
	struct zstd_coded coded[ZSTD_BLOCK_MAX / ZSTD_MATCH_MIN + 1];
	uint8_t literals[ZSTD_BLOCK_MAX + 16];
	uint32_t count[256]; /* of the literals of a block */
	/* The ones that a block may use again, and room for those that take their place. */
	struct zstd_tree tree[2];
	struct zstd_table own[ZSTD_KINDS][2], predefined[ZSTD_KINDS];
};

/*
 * The length of the frame, or 0: does not fit into dst. cuts: NULL where there are none.
 * Use kernels.h's put_zstd, which is the fastest build of it; all write the same bytes.
 */
ssize_t zstd_fast(struct zstd_work *w, int level, struct view src, const struct cuts *cuts,
		  struct span dst);
ssize_t zstd_fast_avx2(struct zstd_work *w, int level, struct view src, const struct cuts *cuts,
		       struct span dst);

/*
 * About how many bytes of such a frame a sample of at most 64 KiB stands for, as a part of a stream
 * of that length. kernels.h's price_zstd is the fastest build; all count the same.
 */
size_t zstd_price(struct zstd_work *w, struct view sample, const struct cuts *cuts);
size_t zstd_price_avx2(struct zstd_work *w, struct view sample, const struct cuts *cuts);

#endif
