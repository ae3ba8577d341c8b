/*
 * Read-ahead for listings. What an entry is, its header says; where headers come from a disk or
 * from another machine, reading one after the other means waiting for each. Here several threads
 * wait at a time; what they find is remembered (fs/backing/probe.h) for the listing that follows.
 */
#ifndef FS_BACKING_AHEAD_H
#define FS_BACKING_AHEAD_H

#include "base/buf.h"
#include "fs/backing/entry.h"

#include <dirent.h>
#include <pthread.h>

/* The entries of one directory that are about to be listed. */
struct ahead {
	struct finder finder;
	int dirfd;
	struct buf names; /* each with its NUL; owned */
	unsigned n;
	pthread_mutex_t lock; /* for the two below */
	size_t next;          /* where the next name begins */
	uint64_t waits;
};

/* How many threads there may be, including the caller. Less than 2: not worthwhile. */
unsigned ahead_threads(const struct finder *f);

void ahead_open(struct ahead *a, const struct finder *finder, int dirfd);
void ahead_close(struct ahead *a);

/* Adds the entry, if it has a header to be read. -ENOMEM. */
NODISCARD int ahead_add(struct ahead *a, const struct dirent *d);

/* Reads all the headers. Returns how many times a thread has waited, for example for a disk. */
uint64_t ahead_run(struct ahead *a);

/* How many times this thread has waited so far. */
uint64_t ahead_waits(void);

#endif
