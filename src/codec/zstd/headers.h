/* The headers of a frame and of its blocks, as we write them. */
#ifndef CODEC_ZSTD_HEADERS_H
#define CODEC_ZSTD_HEADERS_H

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

/*
 * Reads such a header. *n: the length of the content. Returns the length of the header; 0: not one
 * of ours, or no block follows.
 */
static inline size_t zstd_frame_header(struct view frame, uint64_t *n)
{
	if (frame.n < ZSTD_HEADERS_MIN || get_le32(frame.p) != ZSTD_FRAME_MAGIC)
		return 0;
	switch (frame.p[4]) {
	case ZSTD_SINGLE_SEGMENT:
		*n = frame.p[5];
		return 6;
	case 1 << ZSTD_SIZE_SHIFT | ZSTD_SINGLE_SEGMENT:
		*n = get_le16(frame.p + 5) + ZSTD_SIZE_TWO_LESS;
		return 7;
	case 2 << ZSTD_SIZE_SHIFT | ZSTD_SINGLE_SEGMENT:
		*n = get_le32(frame.p + 5);
		return 9;
	default: return 0;
	}
}

/* RLE blocks are never written: the streams of a chunk have their own form for that. */
static inline void zstd_put_block_header(uint8_t *out, unsigned type, size_t n, bool last)
{
	uint32_t header = (uint32_t)(n << 3 | type << 1 | last);
	out[0] = (uint8_t)header;
	out[1] = (uint8_t)(header >> 8);
	out[2] = (uint8_t)(header >> 16);
}

struct zstd_block {
	uint32_t type, n; /* n: of a compressed one, stored bytes; else decoded ones */
	uint32_t stored;
	bool last;
};

/* Reads its header. */
static inline struct zstd_block zstd_block_of(const uint8_t p[static ZSTD_BLOCK_HEADER])
{
	uint32_t header = (uint32_t)(p[0] | p[1] << 8 | p[2] << 16);
	uint32_t type = header >> 1 & 3, n = header >> 3;
	return (struct zstd_block){type, n, type == ZSTD_BLOCK_RLE ? 1 : n, header & 1};
}

#endif
