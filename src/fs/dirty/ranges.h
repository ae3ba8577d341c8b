/*
 * A set of byte ranges of a file, in ascending order, apart from each other. The memory for long
 * sets is bounded, for all files together: a set that may not grow names more bytes than it has to,
 * but never too few. Under the lock of the file. Zeroed before first use.
 */
#ifndef FS_DIRTY_RANGES_H
#define FS_DIRTY_RANGES_H

#include <stdbool.h>
#include <stdint.h>

/* This many ranges need no allocation. */
#define RANGES_FEW 4u

/* Above this number, or if there is no memory, the last ranges are joined. */
#define RANGES_MOST 4096u

/* Bytes that a set may always take, and all that take more together. */
#define RANGES_SHORT 1024u
#define RANGES_LONG (16u << 20)

struct byte_range {
	uint64_t lo, hi;
};

struct ranges {
	struct byte_range few[RANGES_FEW], *many; /* many: NULL, or all of them */
	uint32_t n, cap;                          /* cap: of many */
};

/*
 * Adds [lo, hi), or nothing if it is empty; joined with what it overlaps or touches. False: ranges
 * had to be joined to make room.
 */
bool ranges_add(struct ranges *s, uint64_t lo, uint64_t hi);

/* Removes [lo, hi). Frees the memory if nothing is left. */
void ranges_remove(struct ranges *s, uint64_t lo, uint64_t hi);

/* Removes all. Frees the memory. */
void ranges_clear(struct ranges *s);

/* Range i < n. */
struct byte_range ranges_at(const struct ranges *s, uint32_t i);

/* The first byte; UINT64_MAX: there is none. */
uint64_t ranges_first(const struct ranges *s);

/* The byte after the last one; 0: there is none. */
uint64_t ranges_end(const struct ranges *s);

/* How many bytes there are. */
uint64_t ranges_bytes(const struct ranges *s);

/* The first part of [lo, hi) that is in the set. False: there is none. */
bool ranges_within(const struct ranges *s, uint64_t lo, uint64_t hi, struct byte_range *part);

#endif
