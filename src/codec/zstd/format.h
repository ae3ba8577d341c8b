/*
 * Facts of the format (RFC 8878) that the writer (zstd) and the reader (unzstd) both need.
 * Internal to this layer.
 */
#ifndef CODEC_ZSTD_FORMAT_H
#define CODEC_ZSTD_FORMAT_H

#define ZSTD_FRAME_MAGIC 0xFD2FB528u /* 3.1.1 */

/* The frame header descriptor, 3.1.1.1.1. */
#define ZSTD_SINGLE_SEGMENT (1u << 5) /* no window size: the window is all of the content     */
#define ZSTD_SIZE_SHIFT 6 /* bytes of the content size: 0 for one, 1 for two, 2 for four      */
#define ZSTD_SIZE_TWO_LESS 256u /* a size of two bytes is stored less this                    */

#define ZSTD_HEADER_MAX 9 /* bytes of the longest such header */
#define ZSTD_BLOCK_HEADER 3 /* bytes, 3.1.1.2: whether it is the last one, type, length       */

/* The type of a block, 3.1.1.2.2. */
enum { ZSTD_BLOCK_RAW, ZSTD_BLOCK_RLE, ZSTD_BLOCK_COMPRESSED };

/* The type of its literals, 3.1.1.3.1.1. */
enum {
	ZSTD_LITERALS_RAW,
	ZSTD_LITERALS_RLE,
	ZSTD_LITERALS_COMPRESSED,
	ZSTD_LITERALS_TREELESS,
};

/* The three numbers of a sequence, in the order of their tables, 3.1.1.3.2. */
enum { ZSTD_LITERALS, ZSTD_OFFSET, ZSTD_MATCH, ZSTD_KINDS };

/* Values of offsets up to this name recent ones; it is added to all others, 3.1.1.5. */
#define ZSTD_OFFSET_RECENT 3u

#define ZSTD_MATCH_LESS 3u /* a match length is stored less this, 3.1.1.3.2.1.1               */

/* How the table for one of them is told, 3.1.1.3.2.1. */
enum { ZSTD_TABLE_PREDEFINED, ZSTD_TABLE_RLE, ZSTD_TABLE_COMPRESSED, ZSTD_TABLE_REPEAT };

#define ZSTD_CODE_MAX 11   /* bits of the longest Huffman code, 4.2.1                         */
#define ZSTD_WEIGHTS_LOG 6 /* of the largest table for the weights of its tree, 4.2.1.2       */

/* Tables of finite state entropy, 4.1: of so many bits, and symbols. */
#define FSE_LOG_MIN 5
#define FSE_LOG_MAX 9
#define FSE_SYMBOLS 53 /* codes of match lengths, the most of any table */

/*
 * The first byte of a tree's description, 4.2.1.1: up to this it is the length of coded weights;
 * above, it is this and the number of weights that follow, half a byte each.
 */
#define ZSTD_TREE_CODED_MAX 127u

/* Symbols take every so many-th cell of a table of `size`, 4.1.1. */
#define FSE_STEP(size) (((size) >> 1) + ((size) >> 3) + 3)

/* Of the largest tables for literal lengths, offsets and match lengths, 3.1.1.3.2.1. */
#define ZSTD_LITERALS_LOG 9
#define ZSTD_OFFSET_LOG 8
#define ZSTD_MATCH_LOG 9
#define ZSTD_TABLE_LOGS {ZSTD_LITERALS_LOG, ZSTD_OFFSET_LOG, ZSTD_MATCH_LOG}

/*
 * The tables of sequences that are not written into a stream, 3.1.1.3.2.2: bits that choose a
 * state, number of codes, and their shares; -1: less than one. For struct fse_shares of the writer
 * and struct shares of the reader.
 */
#define ZSTD_PREDEFINED_LITERALS  \
	{6, 36, {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, \
		2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}}

#define ZSTD_PREDEFINED_OFFSET    \
	{5, 29, {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
		1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}}

#define ZSTD_PREDEFINED_MATCH     \
	{6, 53, {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}}

#endif
