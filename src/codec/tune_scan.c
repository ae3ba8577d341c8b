/* Cheap statistics of bytes: entropies by place in an item, and the length of records. */
#include "codec/entropy.h"
#include "codec/tune_impl.h"

#include <assert.h>

/*
 * Bytes are counted by their place among so many, whatever the item: the counters stay in L1, and
 * those of an item whose size divides this are sums of them.
 */
#define LANES 16

/* What a coder spends on describing a plane's statistics, roughly, in bits. */
#define PLANE_COST 200

static uint64_t plane_bits(uint32_t count[LANES][256], uint32_t size)
{
	uint64_t bits = 0;
	for (uint32_t j = 0; j < size; j++) {
		uint32_t sum[256];
		memcpy(sum, count[j], sizeof sum);
		for (uint32_t k = j + size; k < LANES; k += size)
			for (unsigned i = 0; i < 256; i++)
				sum[i] += count[k][i];
		bits += (entropy_of(sum) >> 12) + PLANE_COST;
	}
	return bits;
}

static void count_plain(struct view v, uint32_t count[LANES][256])
{
	memset(count, 0, LANES * sizeof *count);
	for (size_t at = 0; at + LANES <= v.n; at += LANES)
		for (unsigned j = 0; j < LANES; j++)
			count[j][v.p[at + j]]++;
}

static void count_delta(struct view v, uint32_t size, uint32_t count[LANES][256])
{
	uint8_t diff[LANES];
	memset(count, 0, LANES * sizeof *count);
	for (size_t at = LANES; at + LANES <= v.n; at += LANES) {
		for (unsigned j = 0; j < LANES; j++)
			diff[j] = (uint8_t)(v.p[at + j] - v.p[at + j - size]);
		for (unsigned j = 0; j < LANES; j++)
			count[j][diff[j]]++;
	}
}

/* For sizes that do not divide LANES: place by place. */
static uint64_t plane_bits_odd(struct view v, uint32_t size, bool delta)
{
	uint64_t bits = 0;
	for (uint32_t j = 0; j < size; j++) {
		uint32_t count[256] = {0};
		for (size_t i = size + j; i < v.n; i += size)
			count[(uint8_t)(delta ? v.p[i] - v.p[i - size] : v.p[i])]++;
		bits += (entropy_of(count) >> 12) + PLANE_COST;
	}
	return bits;
}

void tune_scan(struct tune_scan *scan, struct view v)
{
	uint32_t plain[LANES][256], delta[LANES][256];

	count_plain(v, plain);
	for (unsigned i = 0; i < scan->n; i++) {
		struct tune_item *item = &scan->item[i];
		assert(item->size >= 1 && item->size <= 255);
		if (LANES % item->size == 0) {
			count_delta(v, item->size, delta);
			item->shuffled = plane_bits(plain, item->size);
			item->delta = plane_bits(delta, item->size);
		} else {
			item->shuffled = plane_bits_odd(v, item->size, false);
			item->delta = plane_bits_odd(v, item->size, true);
		}
	}
}

#define LAG_MAX TUNE_ITEM_MAX
#define LAG_BYTES 4096
#define LAG_PART 128 /* at most 255: counted in a byte, so that the compiler uses whole vectors */

/* How many of the first n bytes equal the one `lag` further on. */
static uint32_t equal_at(struct view v, size_t lag, size_t n)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < n; i += LAG_PART) {
		uint8_t part = 0;
		for (size_t k = i; k < i + LAG_PART; k++)
			part = (uint8_t)(part + (v.p[k] == v.p[k + lag]));
		sum += part;
	}
	return sum;
}

/*
 * In records a byte equals the one a record further on more often than its other neighbours. So
 * does one a multiple of the record's length further on: the shortest distance that comes close to
 * the best is taken.
 */
uint32_t tune_period(struct view v)
{
	uint32_t equal[LAG_MAX + 1], best = 0;
	uint64_t sum = 0;
	if (v.n < LAG_BYTES + LAG_MAX + 1)
		return 0;
	for (uint32_t lag = 1; lag <= LAG_MAX; lag++) {
		equal[lag] = equal_at(v, lag, LAG_BYTES);
		sum += equal[lag];
		if (equal[lag] > best)
			best = equal[lag];
	}
	uint32_t mean = (uint32_t)(sum / LAG_MAX);
	if (best < mean + mean / 4 + LAG_BYTES / 64)
		return 0;
	for (uint32_t lag = 1; lag <= LAG_MAX; lag++)
		if (equal[lag] >= best - (best - mean) / 8)
			return tune_is_usual(lag) ? 0 : lag;
	return 0;
}
