/*
 * The tables of sequences that are not written into a stream, RFC 8878, 3.1.1.3.2.2: bits that
 * choose a state, number of codes, and their shares; -1: less than one. For struct fse_shares of
 * the writer and struct shares of the reader. Internal to this layer.
 */
#ifndef CODEC_ZSTD_PREDEFINED_H
#define CODEC_ZSTD_PREDEFINED_H

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
