/*
 * Detects readers that go through a file from one end to the other, or in equal strides: up to 8
 * streams per file, told apart by where each is expected to continue. The workers decode the next
 * blocks of a stream into the cache before they are asked for, in a window that grows from 128 KiB
 * to 8 MiB with the amount the stream has read. Random access has no window.
 *
 * Where the kernel's own read-ahead is long enough, it is left to the kernel: its requests come
 * several at a time, each is decoded by a thread of its own, and the kernel copies the bytes out of
 * the L2 cache of that thread's core. The workers are for what the kernel does not foresee
 * (strides), for direct I/O, and for mounts whose read-ahead we may not set.
 *
 * A job takes the file's lock only if it is free, and waits for nothing that may itself wait for
 * the pool.
 */
#ifndef FS_READ_READAHEAD_H
#define FS_READ_READAHEAD_H

#include <pthread.h>
#include <stdint.h>

struct file;
struct file_request;

#define READAHEAD_STREAMS 8

struct readahead {
	pthread_mutex_t lock; /* for all below; only the pool's is taken under it */
	pthread_cond_t idle;
	unsigned jobs;        /* with the workers: they keep the file open */
	unsigned clock;       /* requests so far                         */
	struct stream {
		uint64_t next;   /* where it is expected to continue        */
		uint64_t run;    /* bytes read so far without a gap         */
		uint64_t ahead;  /* jobs have been given out up to here     */
		uint64_t last;   /* where the newest request began          */
		uint64_t stride; /* from request to request; 0: unknown     */
		unsigned hits;   /* how often the stride was right          */
		unsigned used;   /* `clock` at the newest request; 0: none  */
		unsigned born;   /* `clock` before its first request        */
	} stream[READAHEAD_STREAMS];
};

void readahead_init(struct readahead *r);
void readahead_deinit(struct readahead *r);

/* What a request is part of. */
enum readahead_kind {
	READ_RANDOM,  /* no stream that is known                         */
	READ_STREAM,  /* a stream that the kernel reads ahead            */
	READ_AHEAD,   /* a stream that the workers decode ahead          */
	READ_STRIDES, /* equal strides, which the workers decode ahead   */
};

/* Notes a request, and tells the workers what to decode next. The file's lock is held. */
enum readahead_kind readahead_note(struct file *f, const struct file_request *q);

/* Waits until the workers have no job of the file. Call before the file is freed. */
void readahead_stop(struct readahead *r);

#endif
