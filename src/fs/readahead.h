/*
 * Who reads a file from one end to the other, or in equal strides: a few streams a file, told by
 * where each reader will go on. The workers decode the next blocks of a stream into the cache
 * before they are asked for, in a window that grows from 128 KiB to 8 MiB with what the stream has
 * read; random access has none.
 *
 * Where the kernel reads ahead far enough it is left to that: its requests come several at a
 * time, each is decoded by a thread of its own, and what is decoded goes to the kernel from the L2
 * cache of the core. The workers are for what the kernel does not foresee (strides), for direct
 * I/O, and for mounts whose read-ahead may not be set.
 *
 * A job takes the file's lock only if it is free, and waits for nothing that may wait for the pool.
 */
#ifndef FS_READAHEAD_H
#define FS_READAHEAD_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct file;

#define READAHEAD_STREAMS 8

struct readahead {
	pthread_mutex_t lock; /* innermost but for the pool's; for all below */
	pthread_cond_t idle;
	unsigned jobs;        /* with the workers: they keep the file open */
	unsigned clock;
	struct stream {
		uint64_t next;   /* where it goes on                        */
		uint64_t run;    /* bytes that came so far, without a gap   */
		uint64_t ahead;  /* up to here the workers have been told   */
		uint64_t last;   /* where the newest request began          */
		uint64_t stride; /* from there to the next one; 0: unknown  */
		unsigned hits;   /* how often that was so                   */
		unsigned used;
	} stream[READAHEAD_STREAMS];
};

void readahead_init(struct readahead *r);
void readahead_deinit(struct readahead *r);

/* A request, by the order of which streams are told. */
struct readahead_request {
	uint64_t at, len;
	bool direct; /* past the page cache: the kernel does not read ahead */
};

/*
 * What it is part of: nothing known, a stream that the kernel
 * foresees, one or strides that the workers decode for.
 */
enum readahead_kind { READ_RANDOM, READ_STREAM, READ_AHEAD, READ_STRIDES };

/* Notes it and tells the workers what to decode next. The file's lock is held. */
enum readahead_kind readahead_note(struct file *f, const struct readahead_request *q);

/* Waits for the jobs that are on their way. Before the file is freed. */
void readahead_stop(struct readahead *r);

#endif
