#include "codec/zstd/fse.h"

/*
 * A table with more cells than a quarter of the symbols to code does not pay for its description;
 * one with less than four cells per distinct symbol, rounded down to a power of two, cannot
 * represent their frequencies.
 */
static unsigned log_for(uint32_t total, unsigned symbols, unsigned log_max)
{
	unsigned log = bit_top(total - 1), least = bit_top(symbols) + 2;
	log = log > FSE_LOG_MIN + 2 ? log - 2 : FSE_LOG_MIN;
	log = log < least ? least : log;
	return log < log_max ? log : log_max;
}

static unsigned most_of(const struct fse_shares *s)
{
	unsigned most = 0;
	for (unsigned i = 1; i < s->n; i++)
		if (s->share[i] > s->share[most])
			most = i;
	return most;
}

void fse_share(struct fse_shares *s, const uint32_t *count, uint32_t total, unsigned log_max)
{
	unsigned last = 0, symbols = 0;
	for (unsigned i = 0; i < FSE_SYMBOLS && i < s->n; i++)
		if (count[i]) {
			last = i;
			symbols++;
		}
	s->n = last + 1;
	s->log = log_for(total, symbols, log_max);
	int left = 1 << s->log;
	uint64_t unit = ((uint64_t)1 << (s->log + 32)) / total;
	for (unsigned i = 0; i < s->n; i++) {
		int16_t share = (int16_t)((count[i] * unit + (1u << 31)) >> 32);
		s->share[i] = count[i] && !share ? 1 : share;
		left -= s->share[i];
	}
	/* The most frequent symbol absorbs the rounding error, at the least cost. */
	for (; left < 0; left++)
		s->share[most_of(s)]--;
	s->share[most_of(s)] = (int16_t)(s->share[most_of(s)] + left);
}

/* Assigns symbols to cells in the order that the format prescribes. */
static void spread(const struct fse_shares *s, uint8_t *cell)
{
	uint32_t size = 1u << s->log, step = FSE_STEP(size), high = size, at = 0;
	for (unsigned i = 0; i < s->n; i++)
		if (s->share[i] < 0)
			cell[--high] = (uint8_t)i;
	for (unsigned i = 0; i < s->n; i++)
		for (int k = 0; k < s->share[i]; k++) {
			cell[at] = (uint8_t)i;
			do
				at = (at + step) & (size - 1);
			while (at >= high);
		}
}

void fse_build(struct fse_table *t, const struct fse_shares *s)
{
	uint8_t cell[1 << FSE_LOG_MAX];
	uint16_t begin[FSE_SYMBOLS];
	uint32_t size = 1u << s->log, sum = 0;
	t->log = s->log;
	for (unsigned i = 0; i < s->n; i++) {
		uint32_t share = (uint32_t)(s->share[i] < 0 ? 1 : s->share[i]);
		begin[i] = (uint16_t)sum;
		if (!share)
			continue;
		unsigned n = share == 1 ? s->log : s->log - bit_top(share - 1);
		t->symbol[i].bits = (n << 16) - (share << n);
		t->symbol[i].first = (int32_t)(sum - share);
		sum += share;
	}
	spread(s, cell);
	for (uint32_t i = 0; i < size; i++)
		t->next[begin[cell[i]]++] = (uint16_t)(size + i);
}

void fse_build_one(struct fse_table *t, unsigned symbol)
{
	t->log = 0;
	t->next[0] = t->next[1] = 0;
	t->symbol[symbol].bits = 0;
	t->symbol[symbol].first = 0;
}

/* Writes the number of symbols without cells after one without: three at a time, then the rest. */
static unsigned put_gap(struct bits *b, const struct fse_shares *s, unsigned at)
{
	unsigned end = at;
	while (!s->share[end])
		end++;
	for (; at + 3 <= end; at += 3) {
		bits_add(b, 3, 2);
		bits_flush(b);
	}
	bits_add(b, end - at, 2);
	return end;
}

uint8_t *fse_put_description(uint8_t *out, const struct fse_shares *s)
{
	struct bits b = {.out = out};
	int32_t left = (1 << s->log) + 1, room = 1 << s->log;
	unsigned n = s->log + 1;
	bool gap = false;
	bits_add(&b, s->log - FSE_LOG_MIN, 4);
	for (unsigned i = 0; i < s->n; i++) {
		if (gap)
			i = put_gap(&b, s, i);
		/* Small values take a bit less, as many as n bits leave spare patterns. */
		int32_t share = s->share[i], spare = 2 * room - 1 - left, value = share + 1;
		left -= share < 0 ? 1 : share;
		if (value >= room)
			value += spare;
		bits_add(&b, (uint32_t)value, n - (value < spare));
		bits_flush(&b);
		gap = !share;
		for (; left < room && room > 1; room >>= 1)
			n--;
	}
	return b.out + (b.n > 0);
}
