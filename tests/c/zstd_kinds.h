/* Random bytes of kinds that Zstandard treats differently: for checks of both directions. */
#ifndef TESTS_ZSTD_KINDS_H
#define TESTS_ZSTD_KINDS_H

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

/* n bytes of a kind behind `at` others. */
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

#endif
