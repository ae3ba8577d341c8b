/*
 * The byte ranges of a file that were written since its last durable commit or its last record in
 * the intent log. A list may name too much, but never too little: if a change is not a range of
 * bytes, or there are too many (of this file, or of all: lists.h), it becomes `whole`. Under the
 * lock of the file.
 */
#ifndef FS_DIRTY_TOUCHED_H
#define FS_DIRTY_TOUCHED_H

#include <stdbool.h>
#include <stdint.h>

/* The most that a record may hold. Above it, a commit writes less than the log would. */
#define TOUCHED_MAX_RANGES 4096u
#define TOUCHED_MAX_BYTES (4u << 20)

struct touched_range {
	uint64_t at, len;
};

struct touched {
	struct touched_range *range;
	uint32_t n, cap;
	uint64_t bytes; /* in all ranges; overlapping ones count several times until settled */
	bool whole;     /* the list is empty, and anything may have changed */
};

/* Adds [at, at + len). */
void touched_add(struct touched *t, uint64_t at, uint64_t len);

/* Anything may have changed. */
void touched_whole(struct touched *t);

/* Clears the list. Keeps the memory of a short one. */
void touched_clear(struct touched *t);

/* Sorts the ranges, and joins those that overlap or touch. */
void touched_settle(struct touched *t);

/* Frees the list, which is empty then. */
void touched_deinit(struct touched *t);

#endif
