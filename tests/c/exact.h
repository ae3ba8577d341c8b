/* Allocations of exactly n bytes, so that a sanitizer sees any access outside. Abort on failure. */
#ifndef TESTS_EXACT_H
#define TESTS_EXACT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void *exact(size_t n)
{
	void *p = malloc(n ? n : 1);
	if (!p)
		abort();
	return p;
}

static inline uint8_t *exact_copy(const uint8_t *from, size_t n)
{
	uint8_t *p = exact(n);
	if (n)
		memcpy(p, from, n);
	return p;
}

#endif
