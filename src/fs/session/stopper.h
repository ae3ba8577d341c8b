/*
 * Ends a mount when a signal comes, while it is still being served: the kernel has data that it has
 * not sent yet.
 */
#ifndef FS_SESSION_STOPPER_H
#define FS_SESSION_STOPPER_H

#include "base/err.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct fs;

/* The thread that waits for the signal. */
struct stopper {
	struct fs *fs;
	bool detached; /* after the join: nothing is left to unmount */
	int signals;   /* signalfd; -1: closed */
	pthread_t thread, main;
};

/*
 * The signals that end a mount. SIGHUP does not if it was ignored at the start, as by nohup(1). The
 * caller blocks them before the first thread starts.
 */
void stopper_signals(sigset_t *set);

/*
 * For a process that has blocked them, but starts no stopper. True: one of these is pending, and
 * would not be ignored: nohup(1) and shells ignore some, but a signal that is blocked becomes
 * pending even then.
 */
bool stopper_is_asked(void);

/*
 * Starts it. Call it in the thread that is about to serve the session: SIGUSR1, which is handled
 * from here on, interrupts that thread's wait for the end.
 */
NODISCARD int stopper_start(struct stopper *s, struct fs *fs);

/*
 * Call when the session is no longer served, for whatever reason. True: the mount was removed, or
 * is not ours to remove, and nothing is left to unmount.
 */
bool stopper_end(struct stopper *s);

#endif
