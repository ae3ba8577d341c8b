/* Reads tables of finite state entropy (RFC 8878, 4.1). */
#include "codec/inline.h"
#include "codec/unzstd/impl.h"
#include "codec/zstd/bits.h"

#define ABOUT_MAX 128 /* bytes; longer than any description of 53 symbols */

/*
 * Reads the share at bit *at. With `left` cells not assigned yet, it is -1 .. left, stored plus
 * one, so one of left + 2 values. A fixed number of bits would leave some patterns spare; so that
 * many of the smallest values go without the top bit, and values with the top bit are reduced by
 * that number.
 */
ALWAYS_INLINE int32_t share_read(const uint8_t *p, unsigned *at, int32_t left)
{
	uint32_t word = get_le32(p + (*at >> 3)) >> (*at & 7);
	unsigned top = bit_top((uint32_t)left + 1);
	int32_t half = 1 << top, spare = 2 * half - (left + 2);
	int32_t low = (int32_t)(word & (uint32_t)(half - 1));
	int32_t high = (int32_t)(word & (uint32_t)(2 * half - 1));
	bool is_short = low < spare;
	*at += top + !is_short;
	return (is_short ? low : high >= half ? high - spare : high) - 1;
}

/*
 * After a share of 0, reads how many more zeros follow, two bits at a time, where 3 means that more
 * follow. False: too many. The array has room for three more than `symbols`.
 */
ALWAYS_INLINE bool zeros_read(struct shares *s, const uint8_t *p, unsigned *at, unsigned symbols)
{
	unsigned more;
	do {
		more = get_le16(p + (*at >> 3)) >> (*at & 7) & 3;
		*at += 2;
		if (s->n + more > symbols)
			return false;
		memset(s->share + s->n, 0, 3 * sizeof *s->share);
		s->n += more;
	} while (more == 3);
	return true;
}

/* As shares_read; ABOUT_MAX + 8 bytes at v.p must be readable, whatever v.n is. */
static size_t read_padded(struct shares *s, struct view v, unsigned symbols, unsigned log)
{
	unsigned at = 4;
	s->log = (v.p[0] & 15u) + FSE_LOG_MIN;
	s->n = 0;
	if (s->log > log)
		return 0;
	int32_t left = 1 << s->log;
	while (left > 0 && s->n < symbols && at < 8 * ABOUT_MAX) {
		int32_t share = share_read(v.p, &at, left);
		left -= share < 0 ? -share : share;
		s->share[s->n++] = (int16_t)share;
		if (!share && !zeros_read(s, v.p, &at, symbols))
			return 0;
	}
	size_t length = (at + 7) / 8;
	return left == 0 && length <= v.n ? length : 0;
}

size_t shares_read(struct shares *s, struct view v, unsigned symbols, unsigned log)
{
	uint8_t padded[ABOUT_MAX + 8]; /* pads a description at the end of the input with zeros */
	if (!v.n)
		return 0;
	if (v.n < sizeof padded) {
		memset(padded, 0, sizeof padded);
		memcpy(padded, v.p, v.n);
		v.p = padded;
	}
	return read_padded(s, v, symbols, log);
}

/* Assigns symbols to cells. Those with a share below one are at the end, in reverse order. */
static void spread(const struct shares *s, uint8_t *symbol)
{
	uint8_t run[(1 << FSE_LOG_MAX) + 8];
	uint32_t size = 1u << s->log, step = FSE_STEP(size), high = size, n = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		int32_t share = s->share[i];
		if (share < 0) {
			symbol[--high] = (uint8_t)i;
			continue;
		}
		for (int32_t k = 0; k < share; k += 8)
			put_le64(run + n + k, i * 0x0101010101010101u);
		n += (uint32_t)share;
	}
	uint32_t at = 0;
	if (high == size) {
		for (uint32_t i = 0; i < size; i += 4) {
			symbol[at] = run[i];
			symbol[(at + step) & (size - 1)] = run[i + 1];
			symbol[(at + 2 * step) & (size - 1)] = run[i + 2];
			symbol[(at + 3 * step) & (size - 1)] = run[i + 3];
			at = (at + 4 * step) & (size - 1);
		}
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		symbol[at] = run[i];
		do
			at = (at + step) & (size - 1);
		while (at >= high);
	}
}

void states_fill(struct cell *cell, unsigned first, const struct shares *s, const struct meaning *m)
{
	uint8_t symbol[1 << FSE_LOG_MAX];
	uint16_t next[FSE_SYMBOLS];
	uint32_t size = 1u << s->log;
	spread(s, symbol);
	for (uint32_t i = 0; i < s->n; i++)
		next[i] = (uint16_t)(s->share[i] < 0 ? 1 : s->share[i]);
	cell += first;
	for (uint32_t i = 0; i < size; i++) {
		const struct meaning *what = &m[symbol[i]];
		uint32_t x = next[symbol[i]]++;
		unsigned bits = s->log - bit_top(x);
		cell[i] = (struct cell){what->base, (uint16_t)((x << bits) - size + first),
					(uint8_t)bits, what->extra};
	}
}
