/*
 * Constants of the format (RFC 8878) for both encoder (zstd) and decoder (unzstd). Internal to this
 * layer.
 */
#ifndef CODEC_ZSTD_FORMAT_H
#define CODEC_ZSTD_FORMAT_H

#define ZSTD_FRAME_MAGIC 0xFD2FB528u /* 3.1.1 */

/* The frame header descriptor, 3.1.1.1.1. */
#define ZSTD_SINGLE_SEGMENT (1u << 5) /* no window size: the window is the whole content      */
#define ZSTD_SIZE_SHIFT 6 /* length of the content size: 0: 1 byte, 1: 2 bytes, 2: 4 bytes    */
#define ZSTD_SIZE_TWO_LESS 256u /* subtracted from a two-byte size                            */

#define ZSTD_HEADER_MAX 9 /* the longest such header */
#define ZSTD_BLOCK_HEADER 3 /* bytes, 3.1.1.2: last-block flag, type, length                  */
#define ZSTD_HEADERS_MIN 9 /* the least for both: a size of 1 byte, before it magic, descriptor  */

/* The type of a block, 3.1.1.2.2. */
enum { ZSTD_BLOCK_RAW, ZSTD_BLOCK_RLE, ZSTD_BLOCK_COMPRESSED };

/* The type of its literals, 3.1.1.3.1.1. */
enum {
	ZSTD_LITERALS_RAW,
	ZSTD_LITERALS_RLE,
	ZSTD_LITERALS_COMPRESSED,
	ZSTD_LITERALS_TREELESS,
};

/* The three numbers of a sequence, in order of their tables, 3.1.1.3.2. */
enum { ZSTD_LITERALS, ZSTD_OFFSET, ZSTD_MATCH, ZSTD_KINDS };

/* Offset values up to this refer to recent offsets; it is added to all others, 3.1.1.5. */
#define ZSTD_OFFSET_RECENT 3u

#define ZSTD_MATCH_LESS 3u /* subtracted from match lengths, 3.1.1.3.2.1.1                    */

/* The modes for the table of one of them, 3.1.1.3.2.1. */
enum { ZSTD_TABLE_PREDEFINED, ZSTD_TABLE_RLE, ZSTD_TABLE_COMPRESSED, ZSTD_TABLE_REPEAT };

#define ZSTD_CODE_MAX 11   /* the longest Huffman code in bits, 4.2.1                         */
#define ZSTD_WEIGHTS_LOG 6 /* log of the largest table for a tree's weights, 4.2.1.2          */

/* Tables of finite state entropy, 4.1: bits, and symbols. */
#define FSE_LOG_MIN 5
#define FSE_LOG_MAX 9
#define FSE_SYMBOLS 53 /* that of match length codes, the most of any table */

/*
 * The first byte of a tree's description, 4.2.1.1: up to this value, the length of coded weights;
 * above, this plus the number of direct weights, half a byte each.
 */
#define ZSTD_TREE_CODED_MAX 127u

/* The step by which symbols are spread over a table of `size` cells, 4.1.1. */
#define FSE_STEP(size) (((size) >> 1) + ((size) >> 3) + 3)

/* Logs of the largest tables for literal lengths, offsets and match lengths, 3.1.1.3.2.1. */
#define ZSTD_LITERALS_LOG 9
#define ZSTD_OFFSET_LOG 8
#define ZSTD_MATCH_LOG 9
#define ZSTD_TABLE_LOGS {ZSTD_LITERALS_LOG, ZSTD_OFFSET_LOG, ZSTD_MATCH_LOG}

/*
 * The predefined tables of sequences, 3.1.1.3.2.2: log, number of codes, and their shares; -1: less
 * than one. For struct fse_shares of the encoder and struct shares of the decoder.
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
