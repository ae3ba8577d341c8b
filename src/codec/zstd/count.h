/*
 * Histograms of bytes. Several tables take turns: with a single one, equal bytes in a row would
 * each wait for the previous count to be stored. Long inputs use eight, since in numbers every
 * fourth byte is often the same; short ones four, which take less time to clear and add up.
 * Internal to this layer.
 */
#ifndef CODEC_ZSTD_COUNT_H
#define CODEC_ZSTD_COUNT_H

#include "codec/match.h"

#define COUNT_LONG 4096 /* bytes from which on eight tables pay */

/* At most 128 KiB are counted, an eighth or a quarter of them in each table, so 16 bits suffice. */
struct zstd_counts {
	uint16_t part[8][256];
};

ALWAYS_INLINE void counts_clear(struct zstd_counts *c, const unsigned parts)
{
	memset(c->part, 0, parts * sizeof *c->part);
}

ALWAYS_INLINE void counts_add(struct zstd_counts *c, struct view v, const unsigned parts)
{
	size_t i = 0;
	for (; i + 8 <= v.n; i += 8) {
		uint64_t x = get_le64(v.p + i);
		for (unsigned k = 0; k < 8; k++)
			c->part[k % parts][x >> 8 * k & 255]++;
	}
	for (; i < v.n; i++)
		c->part[0][v.p[i]]++;
}

/*
 * Counts one of every two neighbouring runs of COUNT_RUN bytes, or with `other` the other one. A
 * hash bit selects which: if it were always the first, only one half of records as long as two runs
 * would be seen. Bytes after the last pair of runs belong to neither half. Returns how many bytes
 * were counted.
 */
#define COUNT_RUN 64

ALWAYS_INLINE size_t counts_add_half(struct zstd_counts *c, struct view v, const unsigned parts,
				     const bool other)
{
	size_t n = 0;
	for (uint32_t i = 0; (n + COUNT_RUN) * 2 <= v.n; i++, n += COUNT_RUN) {
		bool later = (i * HASH_FACTOR_32 >> 31) ^ other;
		counts_add(c, view_part(v, 2 * n + later * COUNT_RUN, COUNT_RUN), parts);
	}
	return n;
}

ALWAYS_INLINE void counts_sum(const struct zstd_counts *c, const unsigned parts,
			      uint32_t count[static 256])
{
	for (unsigned s = 0; s < 256; s++) {
		count[s] = 0;
		for (unsigned k = 0; k < parts; k++)
			count[s] += c->part[k][s];
	}
}

/* All of that for one view. */
ALWAYS_INLINE void count_bytes(struct view v, const unsigned parts, uint32_t count[static 256])
{
	struct zstd_counts counts;
	counts_clear(&counts, parts);
	counts_add(&counts, v, parts);
	counts_sum(&counts, parts, count);
}

#endif
