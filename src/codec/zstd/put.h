/* Writes the headers of a frame and of its blocks. */
#ifndef CODEC_ZSTD_PUT_H
#define CODEC_ZSTD_PUT_H

#include "base/bytes.h"
#include "codec/zstd/format.h"

/* At most ZSTD_HEADER_MAX bytes, for a content of n bytes. Returns the end. */
static inline uint8_t *zstd_put_frame_header(uint8_t *out, size_t n)
{
	unsigned wide = n < ZSTD_SIZE_TWO_LESS ? 0 : n <= ZSTD_SIZE_TWO_LESS + UINT16_MAX ? 1 : 2;
	put_le32(out, ZSTD_FRAME_MAGIC);
	out[4] = (uint8_t)(wide << ZSTD_SIZE_SHIFT | ZSTD_SINGLE_SEGMENT);
	if (wide == 2)
		put_le32(out + 5, (uint32_t)n);
	else if (wide == 1)
		put_le16(out + 5, (uint16_t)(n - ZSTD_SIZE_TWO_LESS));
	else
		out[5] = (uint8_t)n;
	return out + 5 + (1u << wide);
}

/* RLE blocks are never written: the streams of a chunk have their own form for that. */
static inline void zstd_put_block_header(uint8_t *out, unsigned type, size_t n, bool last)
{
	uint32_t header = (uint32_t)(n << 3 | type << 1 | last);
	out[0] = (uint8_t)header;
	out[1] = (uint8_t)(header >> 8);
	out[2] = (uint8_t)(header >> 16);
}

#endif
