/*
 * The byte ranges of a file that were written since its last durable commit or its last record in
 * the intent log. If a change is not a range of bytes, or there are too many (ranges.h), it becomes
 * `whole`. Under the lock of the file. Zeroed before first use.
 */
#ifndef FS_DIRTY_TOUCHED_H
#define FS_DIRTY_TOUCHED_H

#include "fs/dirty/ranges.h"

/* The most that a record may hold. Above it, a commit writes less than the log would. */
#define TOUCHED_MAX_RANGES RANGES_MOST
#define TOUCHED_MAX_BYTES (4u << 20)

struct touched {
	struct ranges ranges;
	uint64_t bytes; /* in them, or more: what is written again may be counted again */
	bool whole;     /* there are no ranges, and anything may have changed           */
};

/* Adds [at, at + len). */
void touched_add(struct touched *t, uint64_t at, uint64_t len);

/* Anything may have changed. */
void touched_whole(struct touched *t);

/* Nothing has changed. Frees the memory. */
void touched_clear(struct touched *t);

#endif
