/*
 * Extra threads that serve the kernel in place of those that wait for another program's lock, for
 * disk space or for memory (dirty/line.h), or whose read takes very long (read/slow.h), so that
 * other requests are answered meanwhile.
 *
 * Starting more threads from the beginning would not do: each working thread takes memory, and
 * README promises a bound that allows for a few of them. A waiting thread takes no more than its
 * request, at most 1 MiB.
 */
#ifndef FS_RELIEF_H
#define FS_RELIEF_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

struct fuse_session;

#define RELIEF_MOST 128

/*
 * One per mount. Starts zeroed, except for `lock`, which is initialised, and `most`. All fields are
 * under the lock.
 */
struct relief {
	pthread_mutex_t lock;
	unsigned most; /* limit on `serving`; beyond it, a waiting thread is not replaced */
	struct fuse_session *session; /* NULL: nothing is served */
	unsigned waiting, serving;    /* threads that wait, and threads in their place */
	struct relief_seat {
		pthread_t thread;
		bool taken, ended; /* ended: to be joined */
		struct relief *relief;
	} seat[RELIEF_MOST];
};

/* Enclose the serving of the session. relief_stop ends the extra threads and waits for them. */
void relief_start(struct relief *r, struct fuse_session *session);
void relief_stop(struct relief *r);

/*
 * Enclose a wait, in any thread that holds no locks of ours except those of a single file, whose
 * other requests may wait as well. relief_begin is false if requests are no longer served;
 * relief_end is told what it returned, or false if it was not called.
 */
NODISCARD bool relief_begin(struct relief *r);
void relief_end(struct relief *r, bool begun);

#endif
