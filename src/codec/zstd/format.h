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

#define ZSTD_BLOCK_HEADER 3 /* bytes, 3.1.1.2: whether it is the last one, type, length       */

#define ZSTD_CODE_MAX 11   /* bits of the longest Huffman code, 4.2.1                         */
#define ZSTD_WEIGHTS_LOG 6 /* of the largest table for the weights of its tree, 4.2.1.2       */

/* Of the largest tables for literal lengths, offsets and match lengths, 3.1.1.3.2.1. */
#define ZSTD_TABLE_LOGS {9, 8, 9}

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
