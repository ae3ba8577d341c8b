/*
 * How often each byte occurs. Four tables take turns: in one, equal bytes that follow each other
 * would each wait for the one before to be stored. Floor-internal.
 */
#ifndef CODEC_ZSTD_COUNT_H
#define CODEC_ZSTD_COUNT_H

#include "base/bytes.h"

/* Of at most 128 KiB in all, a quarter of them in each part, so that 16 bits do. */
struct zstd_counts {
	uint16_t part[4][256];
};

static inline void counts_add(struct zstd_counts *c, struct view v)
{
	size_t i = 0;
	for (; i + 8 <= v.n; i += 8) {
		uint64_t x = get_le64(v.p + i);
		c->part[0][x & 255]++;
		c->part[1][x >> 8 & 255]++;
		c->part[2][x >> 16 & 255]++;
		c->part[3][x >> 24 & 255]++;
		c->part[0][x >> 32 & 255]++;
		c->part[1][x >> 40 & 255]++;
		c->part[2][x >> 48 & 255]++;
		c->part[3][x >> 56]++;
	}
	for (; i < v.n; i++)
		c->part[0][v.p[i]]++;
}

static inline void counts_sum(const struct zstd_counts *c, uint32_t count[static 256])
{
	for (unsigned s = 0; s < 256; s++)
		count[s] = (uint32_t)c->part[0][s] + c->part[1][s] + c->part[2][s] + c->part[3][s];
}

#endif
