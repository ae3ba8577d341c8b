/*
 * Byte ranges of a file that are missing: zeros that nobody wrote would stand for them. A list may
 * name too much, but never too little, and its first byte is exact until that has come. Under the
 * lock of the file.
 */
#ifndef FS_DIRTY_MISSING_H
#define FS_DIRTY_MISSING_H

#include <stdint.h>

/* Beyond so many, neighbours are joined. */
#define MISSING_RANGES 16u

struct missing {
	struct {
		uint64_t lo, hi;
	} range[MISSING_RANGES]; /* in ascending order, apart */
	uint32_t n;
};

void missing_add(struct missing *m, uint64_t lo, uint64_t hi);

/* [lo, hi) was written, or cut off. */
void missing_mend(struct missing *m, uint64_t lo, uint64_t hi);

/* UINT64_MAX: nothing is missing. */
uint64_t missing_first(const struct missing *m);

#endif
