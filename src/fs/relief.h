/*
 * Extra threads that serve the kernel in place of those that wait for another program's lock, for
 * room on the disk or for memory (dirty/line.h), or whose read takes very long (file/slow.h), so
 * that other requests are answered meanwhile.
 *
 * Why not start more threads from the beginning: each working thread takes memory, and README
 * promises a bound for a few of them. A waiting thread takes no more than its request, at most 1
 * MiB.
 */
#ifndef FS_RELIEF_H
#define FS_RELIEF_H

#include <pthread.h>
#include <stdbool.h>

struct fuse_session;

#define RELIEF_MOST 128

/*
 * One per mount. Starts zeroed, except for `lock`, which is initialised, and `most`. All under the
 * lock.
 */
struct relief {
	pthread_mutex_t lock;
	unsigned most; /* extra threads at most; beyond, a waiting thread is not replaced */
	struct fuse_session *session; /* NULL: nothing is served */
	unsigned waiting, serving;    /* threads that wait, and threads in their place */
	struct relief_seat {
		pthread_t thread;
		bool taken, ended; /* ended: to be joined */
		struct relief *relief;
	} seat[RELIEF_MOST];
};

/*
 * Enclose the time in which the session is served. relief_stop ends the extra threads and waits for
 * them.
 */
void relief_start(struct relief *r, struct fuse_session *session);
void relief_stop(struct relief *r);

/*
 * Enclose a wait of any thread that holds no locks of ours, but for those of a single file, whose
 * other requests may wait as well. False: no requests are served any more, and relief_end must not
 * be called.
 */
bool relief_begin(struct relief *r);
void relief_end(struct relief *r);

#endif
