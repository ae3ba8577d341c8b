/*
 * A fast encoder for levels 1 and 2 of Zstandard (RFC 8878), readable by every decoder. The levels
 * differ only in the search for matches.
 *
 * The library spends two fifths of its time on that search. Our level 1 checks the last offset and
 * one other position, and skips ahead faster if it finds nothing: its streams have the same length,
 * in about four fifths of the time of the library's level 1. Our level 2, with two tables, takes
 * three quarters of the time of the library's level 3, whose place it takes (FORMAT.md 6.4).
 */
#ifndef CODEC_ZSTD_FAST_H
#define CODEC_ZSTD_FAST_H

#include "base/bytes.h"
#include "codec/cuts.h"
#include "codec/kernels/kernels.h"
#include "codec/zstd/build.h"
#include "codec/zstd/format.h"
#include "codec/zstd/fse.h"

#include <sys/types.h>

/*
 * The longest streams for the two levels. Above 128 KiB the larger window of the library's level is
 * better.
 */
#define ZSTD_FAST_MAX (16u << 20)
#define ZSTD_DOUBLE_MAX (128u << 10)

/*
 * The longest block. Each block has tables, which cost a reader time, so a chunk's block of text
 * (96 KiB) is not divided. A longer one might have more sequences than a two-byte count can hold.
 */
#define ZSTD_BLOCK_MAX (96u << 10)
#define ZSTD_NEAR_MAX (64u << 10) /* a stream whose positions fit 16 bits */
#define ZSTD_MATCH_MIN 4 /* our minimum; the format allows ZSTD_MATCH_LESS */
#define ZSTD_HASH_LOG 14   /* level 1; with 13, text gets 0.5 to 3 % larger */
#define ZSTD_PLANE_LOG 13  /* 16 KiB: planes need little memory */
#define ZSTD_DOUBLE_LOG 15 /* 128 KiB for both tables of level 2     */
#define ZSTD_SMALL_LOG 13  /* small streams use only a quarter       */

/* Bits for a length in a block, and for the value of an offset in a stream. */
#define ZSTD_LENGTH_BITS 17
#define ZSTD_OFFSET_BITS 30
_Static_assert(ZSTD_BLOCK_MAX < 1u << ZSTD_LENGTH_BITS &&
	       ZSTD_FAST_MAX + ZSTD_OFFSET_RECENT < 1u << ZSTD_OFFSET_BITS,
	       "numbers of a sequence");

/* Literals and the match after them, as the numbers that the format stores (RFC 8878, 3.1.1.5). */
struct zstd_sequence {
	uint64_t literals : ZSTD_LENGTH_BITS; /* how many                                      */
	uint64_t match : ZSTD_LENGTH_BITS;    /* its length less ZSTD_MATCH_LESS               */
	uint64_t offset : ZSTD_OFFSET_BITS;   /* its distance plus ZSTD_OFFSET_RECENT; 1: the last
						 distance, or without literals the one before */
};

/* The same in the form that is written: codes for three states, and their extra bits. */
struct zstd_coded {
	uint64_t extra;
	uint8_t literals, offset, match, nextra;
};

struct zstd_table {
	struct fse_shares shares;
	struct fse_table fse;
};

struct zstd_tree {
	unsigned n;         /* symbols, up to the last one with a code */
	uint8_t len[256];   /* of the code in bits; 0: no code */
	uint64_t code[256]; /* zstd/codes.h                   */
};

/* The workspace of one thread's encoder. Only the first two members need initialisation. */
struct zstd_work {
	bool (*put_codes)(const uint64_t code[256], struct view v, struct span to, uint8_t *end[4]);
	unsigned built; /* bitmask of the predefined tables that are; 0 at first */
	/* The last position of each hash, for each kind of search (zstd/impl.h). */
	union {
		uint16_t plane[1 << ZSTD_PLANE_LOG];
		uint16_t near[1 << ZSTD_HASH_LOG];
		uint32_t far[1 << ZSTD_HASH_LOG];
		struct {
			uint16_t by_short[1 << ZSTD_DOUBLE_LOG], by_long[1 << ZSTD_DOUBLE_LOG];
		} pair; /* by hashes of 4 or 5 bytes, and of 8 */
	};
	struct zstd_sequence sequence[ZSTD_BLOCK_MAX / ZSTD_MATCH_MIN + 1];
	struct zstd_coded coded[ZSTD_BLOCK_MAX / ZSTD_MATCH_MIN + 1];
	uint8_t literals[ZSTD_BLOCK_MAX + 16];
	uint32_t count[256]; /* of the literals of a block */
	/*
	 * Trees and tables of the previous blocks, which the next one may reuse, and room for its
	 * own.
	 */
	struct zstd_tree tree[2];
	struct zstd_table own[ZSTD_KINDS][2], predefined[ZSTD_KINDS];
};

/*
 * Encodes `src`, 1 .. ZSTD_FAST_MAX bytes at level 1 and up to ZSTD_DOUBLE_MAX at level 2, as a
 * frame. Returns its length; 0: it does not fit into dst. cuts (codec/cuts.h): NULL: none. Callers
 * use put_zstd of kernels.h, the fastest build for this CPU; all builds write the same bytes.
 */
ssize_t zstd_fast(struct zstd_work *w, int level, struct view src, const struct cuts *cuts,
		  struct span dst);
ssize_t zstd_fast_avx2(struct zstd_work *w, int level, struct view src, const struct cuts *cuts,
		       struct span dst);

/*
 * Estimates how many bytes a sample of at most 64 KiB would take as part of a frame of level 1.
 * Callers use estimate_zstd of kernels.h, the fastest build; all builds return the same.
 */
size_t zstd_estimate(struct zstd_work *w, struct view sample, const struct cuts *cuts);
size_t zstd_estimate_avx2(struct zstd_work *w, struct view sample, const struct cuts *cuts);

#endif
