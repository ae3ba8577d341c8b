/*
 * The byte ranges of a file that were written since its newest durable commit or record of
 * the intent log. A list that says too much is right, one that says too little is not: what
 * can't be listed makes it `whole`.
 */
#ifndef FS_TOUCHED_H
#define FS_TOUCHED_H

#include <stdbool.h>
#include <stdint.h>

/* What a record may hold. Beyond it a commit writes less than the log would. */
#define TOUCHED_MAX_RANGES 4096u
#define TOUCHED_MAX_BYTES (4u << 20)

struct touched_range {
	uint64_t at, len;
};

struct touched {
	struct touched_range *range;
	uint32_t n, cap;
	uint64_t bytes; /* of all ranges, counted once for each time they were written */
	bool whole;     /* more than ranges of bytes changed: size, holes, or too much */
};

/* [at, at + len) was written. */
void touched_add(struct touched *t, uint64_t at, uint64_t len);

/* Something changed that no range can say. */
void touched_whole(struct touched *t);

/* All of it is safe elsewhere. Keeps the memory of a list of ordinary length. */
void touched_clear(struct touched *t);

/* In order, each byte once. */
void touched_settle(struct touched *t);

void touched_deinit(struct touched *t);

#endif
