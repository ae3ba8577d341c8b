/*
 * Threads that serve the kernel in the place of those that wait for another program's lock, or for
 * room on the disk, so that other requests are answered meanwhile.
 *
 * Not simply more threads from the start: each that works takes memory, and what README promises of
 * that holds for a few. One that waits takes no more than its request, 1 MiB at most.
 */
#ifndef FS_RELIEF_H
#define FS_RELIEF_H

#include <pthread.h>
#include <stdbool.h>

struct fuse_session;

#define RELIEF_MOST 128

/* One of a mount, with its lock initialized, `most`, else zeros; all under the lock. */
struct relief {
	pthread_mutex_t lock;
	unsigned most; /* threads; beyond them a wait holds one that other files would need */
	struct fuse_session *session; /* NULL: nothing is served */
	unsigned waiting, serving;    /* threads that wait, threads in their place */
	struct relief_seat {
		pthread_t thread;
		bool taken, ended; /* ended: to be joined */
		struct relief *relief;
	} seat[RELIEF_MOST];
};

/* While the session is served. The second waits for the threads, which are made to end. */
void relief_start(struct relief *r, struct fuse_session *session);
void relief_stop(struct relief *r);

/*
 * Around a wait of any thread with no locks of ours held. False: nothing is served any more, and
 * relief_end is not to be called.
 */
bool relief_begin(struct relief *r);
void relief_end(struct relief *r);

#endif
