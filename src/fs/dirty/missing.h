/*
 * Byte ranges of a file that are missing: without them zeros would be shown that nobody wrote. A
 * list may name too much, but never too little. Under the lock of the file. Zeroed before first
 * use.
 */
#ifndef FS_DIRTY_MISSING_H
#define FS_DIRTY_MISSING_H

#include <stdbool.h>
#include <stdint.h>

/* This many ranges need no allocation. */
#define MISSING_FEW 4u

/* Above this number, or if there is no memory (lists.h), the last ranges are joined. */
#define MISSING_MOST 4096u

struct missing_range {
	uint64_t lo, hi;
};

struct missing {
	struct missing_range few[MISSING_FEW], *many; /* many: NULL, or all of them */
	uint32_t n, cap;                              /* in ascending order, apart; cap: of many */
};

/* [lo, hi) is missing, or nothing if it is empty; joined with what it overlaps or touches. */
void missing_add(struct missing *m, uint64_t lo, uint64_t hi);

/* [lo, hi) was written, or cut off. Frees the memory if nothing is missing any more. */
void missing_mend(struct missing *m, uint64_t lo, uint64_t hi);

/* Nothing is missing any more. Frees the memory. */
void missing_clear(struct missing *m);

/* The first missing byte; UINT64_MAX: nothing is missing. */
uint64_t missing_first(const struct missing *m);

/* The byte after the last missing one; 0: nothing is missing. */
uint64_t missing_end(const struct missing *m);

/* The first part of [lo, hi) that is missing. False: there is none. */
bool missing_within(const struct missing *m, uint64_t lo, uint64_t hi, struct missing_range *part);

#endif
