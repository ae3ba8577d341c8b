/*
 * The threads that were refused an open. Answered with ESTALE, the kernel looks the name up and
 * opens the file again, but only once: the next ESTALE is the application's, although the file may
 * have changed again meanwhile. So whoever comes back gets the file as it is.
 *
 * Any thread, without a lock.
 */
#ifndef FS_OPS_REFUSED_H
#define FS_OPS_REFUSED_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* A thread that opens a file. */
enum opener {
	OPENER_UNKNOWN, /* outside our PID namespace, or it makes the file */
	OPENER_FIRST,
	OPENER_AGAIN,   /* it was refused a moment ago                     */
};

/* Each thread has a place, by its number. Where several have the same, the last one is known. */
#define REFUSED_MOST 256

/* Starts zeroed. */
struct refused {
	_Atomic uint64_t places[REFUSED_MOST];
};

void refused_note(struct refused *r, pid_t thread);

/* Says whether the thread was noted, and forgets it. */
enum opener refused_know(struct refused *r, pid_t thread);

#endif
