/*
 * What is wrong with a frame: lines about its chunks, in chunk order, whenever and by whichever
 * thread they are found.
 */
#ifndef FINDINGS_H
#define FINDINGS_H

#include "base/buf.h"

#include <pthread.h>

struct findings {
	pthread_mutex_t lock; /* for what follows                              */
	struct buf list;      /* of pointers to `struct finding`, by their `at` */
	uint64_t more;        /* findings that are not in the list */
};

/* For lines that go after those about chunks. */
#define FINDING_OF_ALL UINT32_MAX

void findings_init(struct findings *f);
void findings_deinit(struct findings *f);

/* From any thread: adds a line about chunk `at`, or one of FINDING_OF_ALL. */
void findings_add(struct findings *f, uint32_t at, const char *line);

bool findings_any(const struct findings *f);
void findings_clear(struct findings *f);

/* Prints them, each after the name of the frame. */
void findings_print(const struct findings *f, const char *name);

#endif
