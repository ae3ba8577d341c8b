/* Random bytes of kinds that Zstandard treats differently, to check encoder and decoder. */
#ifndef TESTS_ZSTD_KINDS_H
#define TESTS_ZSTD_KINDS_H

#include "codec/cuts.h"
#include "random.h"

static size_t below(size_t n)
{
	return (size_t)(next_random() % n);
}

enum kind { SAME, TWO, FLAT, SKEWED, STEEP, RAMP, WORDS, COPY, FAR_COPY, PLANES, NARROW, KINDS };

/* Codes as long as the counts of Fibonacci's numbers make them. */
static uint8_t steep(void)
{
	uint8_t x = 0;
	while (x < 40 && below(100) < 62)
		x++;
	return x;
}

static uint8_t skewed(void)
{
	return (uint8_t)(below(16) * below(16));
}

static void copy_from(uint8_t *p, size_t at, size_t n, size_t back)
{
	for (size_t i = at; i < at + n; i++)
		p[i] = back && i >= back ? p[i - back] : (uint8_t)next_random();
}

/* n bytes of a kind, after `at` others. */
static void fill(uint8_t *p, size_t at, size_t n, enum kind kind)
{
	static const char *const word[] = {"the ",   "frame ",   "of ", "a file ",
					   "holds ", "chunks, ", "and "};
	uint8_t first = (uint8_t)next_random(), range = (uint8_t)(1 + below(255));
	size_t near = 1 + below(at + 1 < 4000 ? at + 1 : 4000);
	size_t back = kind == FAR_COPY ? at : near, end = at + n;
	if (kind == COPY || kind == FAR_COPY) {
		copy_from(p, at, n, back);
		return;
	}
	for (size_t i = at; i < end; i++)
		switch (kind) {
		case SAME: p[i] = first; break;
		case TWO: p[i] = (uint8_t)(first + (below(8) == 0)); break;
		case SKEWED: p[i] = skewed(); break;
		case STEEP: p[i] = steep(); break;
		case RAMP: p[i] = (uint8_t)((i & 3) ? 0 : i / 4); break;
		case NARROW: p[i] = (uint8_t)(first + below(range)); break;
		case PLANES: p[i] = (uint8_t)(i >> 13 & 1 ? next_random() : below(4)); break;
		case WORDS: {
			const char *w = word[below(7)];
			for (; *w && i < end; i++, w++)
				p[i] = (uint8_t)*w;
			i--;
			break;
		}
		default: p[i] = (uint8_t)next_random();
		}
}

/* Usually short, at most `longest`. */
static size_t random_length(size_t longest)
{
	size_t most = below(8) ? 70000 : longest;
	return 1 + below(below(3) ? most : 2000);
}

static void mixture(uint8_t *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		size_t part = 1 + below(below(4) ? 500 : n), left = n - at;
		part = part < left ? part : left;
		fill(p, at, part, (enum kind)below(KINDS));
		at += part;
	}
}

/* Tries short lengths, and lengths near limits, with each kind of bytes. */
static void sweep(uint8_t *p, void (*try_bytes)(const uint8_t *p, size_t n))
{
	static const size_t around[] = {1023,  4095,   16383,  65535, 65791,
					98303, 131071, 196607, 262143};
	for (enum kind k = 0; k < KINDS; k++)
		for (size_t i = 1; i < 301 + 5 * sizeof around / sizeof *around; i++) {
			size_t n = i < 301 ? i : around[(i - 301) / 5] + (i - 301) % 5 - 1;
			fill(p, 0, n, k);
			try_bytes(p, n);
		}
}

static struct cuts random_cuts(size_t n)
{
	struct cuts c = {.parts = (uint32_t)(1 + below(64))};
	if (n < c.parts || !below(4))
		return (struct cuts){.parts = 1};
	for (uint32_t at = 1; at < c.parts && c.n + 1 < CUTS_MAX; at++)
		if (!below(3))
			c.end[c.n++] = (uint16_t)at;
	c.end[c.n++] = (uint16_t)c.parts;
	return c;
}

#endif
