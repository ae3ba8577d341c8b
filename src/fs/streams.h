/*
 * Who reads a file from one end to the other: a few streams a file, told by where each
 * reader will go on.
 *
 * The kernel reads ahead in several requests at once, which arrive in any order; a long request
 * therefore belongs to a stream when it is near its end, a short one only when it is exactly there.
 */
#ifndef FS_STREAMS_H
#define FS_STREAMS_H

#include <pthread.h>
#include <stdint.h>

#define STREAMS 8

struct streams {
	pthread_mutex_t lock; /* innermost; for all below */
	unsigned clock;
	struct stream {
		uint64_t next; /* where it goes on      */
		uint64_t run;  /* bytes that came so far */
		unsigned used;
	} stream[STREAMS];
};

void streams_init(struct streams *s);
void streams_deinit(struct streams *s);

/* A request came. Returns how many bytes its stream had read before: 0: none, it begins one. */
uint64_t streams_note(struct streams *s, uint64_t at, uint64_t len);

#endif
