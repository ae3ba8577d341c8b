/* Cheap statistics of bytes: entropies by position in an item, and the length of records. */
#include "codec/inline.h"
#include "codec/tune/impl.h"

#include <assert.h>

/*
 * Bytes are counted by their position modulo 16, whatever the item size: the counters fit the L1
 * cache, and those of item sizes that divide 16 are sums of them.
 */
#define LANES 16
#define LANES_LEAST 4 /* so that counts of equal bytes in a row do not wait for each other */

/* Roughly the bits that a coder spends on describing a plane's statistics. */
#define PLANE_COST 200

/* Adds lanes together until `size` are left. */
static void join_lanes(uint32_t count[LANES][256], uint32_t lanes, uint32_t size)
{
	for (; lanes > size && lanes > 1; lanes /= 2)
		for (uint32_t j = 0; j < lanes / 2; j++)
			for (unsigned i = 0; i < 256; i++)
				count[j][i] += count[j + lanes / 2][i];
}

static uint64_t plane_bits(const struct kernels *k, uint32_t count[LANES][256], uint32_t size)
{
	uint64_t bits = 0;
	for (uint32_t j = 0; j < size; j++)
		bits += (k->entropy(count[j]) >> 12) + PLANE_COST;
	return bits;
}

/* Splits words in registers: bytes that were just stored would have to wait for memory. */
ALWAYS_INLINE void count_word(uint64_t x, const unsigned first, const unsigned lanes,
			      uint32_t count[LANES][256])
{
	for (unsigned j = 0; j < 8; j++)
		count[(first + j) % lanes][x >> 8 * j & 255]++;
}

ALWAYS_INLINE void count_plain(struct view v, const unsigned lanes, uint32_t count[LANES][256])
{
	memset(count, 0, lanes * sizeof *count);
	for (size_t at = 0; at + LANES <= v.n; at += LANES)
		for (unsigned j = 0; j < LANES; j += 8)
			count_word(get_le64(v.p + at + j), j, lanes, count);
}

/*
 * Returns the number of lanes: 8, which take less time to clear and add up, or 16 if an item needs
 * them.
 */
static uint32_t count_all(const struct tune_scan *scan, struct view v, uint32_t count[LANES][256])
{
	bool all = false;
	for (unsigned i = 0; i < scan->n; i++)
		all |= scan->item[i].size == LANES;
	if (all)
		count_plain(v, LANES, count);
	else
		count_plain(v, LANES / 2, count);
	return all ? LANES : LANES / 2;
}

/* Eight differences of bytes at once: with the highest bits set aside, no borrow crosses bytes. */
ALWAYS_INLINE uint64_t sub_each(uint64_t a, uint64_t b)
{
	const uint64_t high = 0x8080808080808080;
	return ((a | high) - (b & ~high)) ^ ((a ^ ~b) & high);
}

ALWAYS_INLINE void count_delta(struct view v, uint32_t size, const unsigned lanes,
			       uint32_t count[LANES][256])
{
	memset(count, 0, lanes * sizeof *count);
	for (size_t at = LANES; at + LANES <= v.n; at += LANES)
		for (unsigned j = 0; j < LANES; j += 8) {
			const uint8_t *p = v.p + at + j;
			count_word(sub_each(get_le64(p), get_le64(p - size)), j, lanes, count);
		}
}

static uint64_t delta_bits(const struct kernels *k, struct view v, uint32_t size)
{
	uint32_t count[LANES][256];
	switch (size) {
	case 16: count_delta(v, size, 16, count); break;
	case 8: count_delta(v, size, 8, count); break;
	default: count_delta(v, size, LANES_LEAST, count);
	}
	join_lanes(count, (uint32_t)max_u64(size, LANES_LEAST), size);
	return plane_bits(k, count, size);
}

/* For sizes that do not divide LANES: position by position. */
static uint64_t plane_bits_odd(const struct kernels *k, struct view v, uint32_t size, bool delta)
{
	uint64_t bits = 0;
	for (uint32_t j = 0; j < size; j++) {
		uint32_t count[256] = {0};
		for (size_t i = size + j; i < v.n; i += size)
			count[(uint8_t)(delta ? v.p[i] - v.p[i - size] : v.p[i])]++;
		bits += (k->entropy(count) >> 12) + PLANE_COST;
	}
	return bits;
}

void tune_scan(const struct kernels *k, struct tune_scan *scan, struct view v)
{
	uint32_t plain[LANES][256];

	uint32_t most = count_all(scan, v, plain);
	for (uint32_t lanes = most; lanes; join_lanes(plain, lanes, lanes / 2), lanes /= 2)
		for (unsigned i = 0; i < scan->n; i++)
			if (scan->item[i].size == lanes)
				scan->item[i].shuffled = plane_bits(k, plain, lanes);
	for (unsigned i = 0; i < scan->n; i++) {
		struct tune_item *item = &scan->item[i];
		assert(item->size >= 1 && item->size <= 255);
		if (LANES % item->size == 0) {
			item->delta = delta_bits(k, v, item->size);
		} else {
			item->shuffled = plane_bits_odd(k, v, item->size, false);
			item->delta = plane_bits_odd(k, v, item->size, true);
		}
	}
}

#define LAG_MAX TUNE_ITEM_MAX
#define LAG_BYTES 2048
#define LAG_AGAIN (16u << 10)
#define LAG_PART 128 /* at most 255: counted in a byte, so that the compiler vectorises well */

/* How many of the first n bytes equal the one `lag` bytes later. */
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
 * True: the lag is a multiple of a usual item's size, and the previous multiple is about as good on
 * more bytes: by chance, some multiple always has the most equal bytes. (The size itself would not
 * do for comparison: it counts all runs of equal bytes, in records, too.)
 */
static bool is_multiple(struct view v, uint32_t lag)
{
	size_t n = min_u64(v.n - lag, LAG_AGAIN) / LAG_PART * LAG_PART;
	int64_t equal = equal_at(v, lag, n);
	for (uint32_t usual = TUNE_USUAL_MAX; usual > 1; usual /= 2) {
		if (lag % usual)
			continue;
		int64_t more = equal - equal_at(v, lag - usual, n);
		if (more <= 0 || more * more <= 4 * equal) /* two standard deviations */
			return true;
	}
	return false;
}

/*
 * In records a byte equals the one a record later more often than other neighbours. The same holds
 * for multiples of the record's length, so the shortest distance close to the best one is taken;
 * for usual items, whose bytes are equal by chance, that may be any multiple.
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
	uint32_t lag = 1;
	while (equal[lag] < best - (best - mean) / 8)
		lag++;
	return tune_is_usual(lag) || is_multiple(v, lag) ? 0 : lag;
}

/*
 * True: in nearly all items the bytes above the lowest `width` are a sign extension of those, and
 * both signs occur.
 */
static bool are_extended(struct view v, uint32_t size, uint32_t width)
{
	const uint32_t above = 64 - 8 * size, unused = 64 - 8 * width;
	size_t n = (v.n - 8) / size, part = n / 16, others = 0, negative = 0;
	for (size_t i = 0; i < n && others <= part; i++) {
		uint64_t x = get_le64(v.p + i * size);
		int64_t low = (int64_t)(x << unused) >> unused;
		others += ((x ^ (uint64_t)low) << above) != 0;
		negative += low < 0;
	}
	return others <= part && negative > part && n - negative > part;
}

#define SIGNED_MIN 512

/*
 * Pairs of items are not mistaken for one: the upper one is not a sign extension of the lower one.
 */
uint32_t tune_signed(struct view v)
{
	static const struct {
		uint32_t size, width;
	} kinds[] = {{8, 4}, {4, 2}, {2, 1}, {4, 3}, {8, 7}};
	for (unsigned i = 0; v.n >= SIGNED_MIN && i < sizeof kinds / sizeof *kinds; i++)
		if (are_extended(v, kinds[i].size, kinds[i].width))
			return kinds[i].size;
	return 0;
}

/*
 * Numbers that are the nearest to a decimal with only a few digits after the point. Larger ones are
 * near one by chance.
 */
struct decimals {
	double scale, largest, precision;
};

static bool is_decimal(const struct decimals *kind, double x)
{
	if (x >= kind->largest)
		return false;
	double scaled = x * kind->scale, off = scaled - (double)(int64_t)(scaled + 0.5);
	return off <= scaled * kind->precision && -off <= scaled * kind->precision;
}

/* The absolute value of a number of 4 or 8 bytes. */
static double magnitude(const uint8_t *p, uint32_t size)
{
	uint32_t low = get_le32(p) & INT32_MAX;
	uint64_t all = size == 8 ? get_le64(p) & INT64_MAX : 0;
	float x;
	double y;
	memcpy(&x, &low, sizeof x);
	memcpy(&y, &all, sizeof y);
	return size == 8 ? y : (double)x;
}

bool tune_are_decimals(struct view v, uint32_t size)
{
	static const struct decimals doubles = {1e6, 1e7, 5e-16}, floats = {1e2, 1e4, 0x1p-24};
	size_t n = v.n / size, decimals = 0, others = 0;
	for (size_t i = 0; i < n && others <= n / 8; i++) {
		double x = magnitude(v.p + i * size, size);
		if (!(x < 0x1p52 && (double)(int64_t)x < x))
			continue; /* an integer, or not a number */
		bool decimal = is_decimal(size == 8 ? &doubles : &floats, x);
		decimals += decimal;
		others += !decimal;
	}
	return others <= n / 8 && decimals > n / 2;
}

bool tune_is_text(struct view v)
{
	bool text = true;
	for (size_t i = 0; i < v.n; i++)
		text &= v.p[i] >= '\t' && v.p[i] <= '~';
	return text;
}

#define LINE_MAX 1024
#define LINES 4      /* consecutive */
#define LINE_PARTS 4 /* at most this many in a line */

/* The common length of lines of text, newlines included; 0: they differ. */
static uint32_t line_length(struct view v)
{
	size_t at = 0, length = 0;
	for (unsigned i = 0; i <= LINES; i++) {
		struct view rest = view_part(v, at, min_u64(v.n - at, LINE_MAX));
		const uint8_t *end = rest.n ? memchr(rest.p, '\n', rest.n) : NULL;
		size_t n = end ? (size_t)(end - rest.p) + 1 : 0;
		if (!n || (i > 1 && n != length))
			return 0;
		length = n; /* the first line is cut */
		at += n;
	}
	return tune_is_text(view_part(v, 0, at)) ? (uint32_t)length : 0;
}

/*
 * A line is a whole number of parts, so the same column of two lines is a whole number of items
 * apart, which matches in planes can find. Items of a column's width would drift, unless a line is
 * a whole number of them.
 */
uint32_t tune_line_part(struct view v, uint32_t column)
{
	uint32_t line = line_length(v);
	if (column && line % column == 0)
		return 0;
	for (uint32_t n = 2; line > TUNE_ITEM_MAX && n <= LINE_PARTS; n++)
		if (line % n == 0 && line / n <= TUNE_ITEM_MAX)
			return line / n;
	return 0;
}
