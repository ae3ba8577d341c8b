/*
 * `x.b2frame.b2lock`: the file by which programs that use the reference library's locking share a
 * frame (FORMAT.md 17). A reader holds a shared flock on it; a writer holds an exclusive one, and
 * first adds one to the generation counter in it.
 *
 * We never create it: it exists if some program uses it. Looking for it takes a system call, when a
 * file is opened, looked up, stored to or committed.
 *
 * While another program has the lock, our threads wait for it for half a minute. That is counted
 * once for all of them, from the first failed try: a thread that comes after it is over tries only
 * for a moment; or for two seconds if there were no tries for a while, since the lock may have been
 * free meanwhile. A thread waits with no lock of ours held, and another one serves the kernel in
 * its place (relief.h). A thread that does hold one tries for a moment; then its caller releases
 * that lock, waits (sidecar_wait), and starts again.
 *
 * Its place in the order of locks is in fs.h. A thread must not enter twice.
 */
#ifndef FS_SIDECAR_SIDECAR_H
#define FS_SIDECAR_SIDECAR_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct inodes;
struct relief;

/*
 * How long the lock has been held, by our tries: a row of them that all failed. Times are those of
 * meter_now. Tries that are far apart prove little, as the lock may have been free in between; so
 * `watched` says since when they have come in close succession.
 */
struct sidecar_busy {
	uint64_t since;   /* the first of the row; 0: the last try succeeded     */
	uint64_t watched; /* since then there were no long pauses between them   */
	uint64_t seen;    /* the latest                                          */
};

struct sidecar {
	struct relief *relief; /* fixed */
	struct inodes *inodes; /* which count the descriptor; fixed */
	atomic_bool *told;     /* it was logged as held for too long; one per frame; fixed */
	/* Alone: to commit, and to open the sidecar; shared: to read or store. */
	pthread_rwlock_t entered;
	atomic_bool there;     /* fd >= 0; can be read without the lock */
	int fd;                /* under entered; -1: none */
	pthread_mutex_t lock;  /* for what follows, unless entered is held alone */
	unsigned readers;      /* threads that share one flock ... */
	bool locked;           /* ... if they got it; else they went on without */
	uint64_t generation;   /* of the frame that is in memory ... */
	bool unsure;           /* ... which may be outdated all the same: sidecar_changed */
	struct sidecar_busy busy_shared, busy_alone;
};

/* All are borrowed. */
void sidecar_init(struct sidecar *s, struct relief *relief, struct inodes *inodes,
		  atomic_bool *told);
void sidecar_deinit(struct sidecar *s);

/* Takes over what another sidecar of the same frame knows of how long the lock has been held. */
void sidecar_know(struct sidecar *s, const struct sidecar_busy *busy);

/*
 * Opens the sidecar of the frame `backing` in `dirfd`, if there is one and it is not open. After a
 * failure there may be one.
 */
NODISCARD int sidecar_look(struct sidecar *s, int dirfd, const char *backing);

/*
 * True: we may not write to it, so no reader could be told of a commit: sidecar_enter_alone will
 * fail with -EACCES. Logged once.
 */
bool sidecar_is_read_only(struct sidecar *s);

/*
 * How one of the functions below has entered: what it returns, unless it fails. -EAGAIN: another
 * program has the lock. Whatever it returns is to be passed to sidecar_leave.
 */
enum sidecar_entered {
	SIDECAR_NONE,    /* nobody shares the frame: there is nothing to leave            */
	SIDECAR_LOCKED,  /* the lock is ours, shared with other readers                   */
	SIDECAR_ALONE,   /* the lock is ours, exclusively                                 */
	SIDECAR_WITHOUT, /* another program has had it for too long: we go on without it  */
};

/*
 * Enters to read: until sidecar_leave no other program writes. Waits for the lock, and goes on
 * without it if it does not become free in time: bytes that change while they are read fail their
 * checksum. Cannot fail.
 */
NODISCARD int sidecar_enter(struct sidecar *s);

/* The same for a caller that holds locks of ours, and must not wait: tries for a moment only. */
NODISCARD int sidecar_enter_soon(struct sidecar *s);

/*
 * Enters to write what no reader looks at: readers may be there, but until sidecar_leave no other
 * program writes. Tries for a moment only, the second form just once; never goes on without the
 * lock.
 */
NODISCARD int sidecar_enter_store(struct sidecar *s);
NODISCARD int sidecar_try_enter_store(struct sidecar *s);

/*
 * Enters to write: until sidecar_leave no other program reads or writes. Increments the generation,
 * so that readers will look again. Tries for a moment only; never goes on without the lock.
 */
NODISCARD int sidecar_enter_alone(struct sidecar *s);

/* Ends any of these, which has returned `how`. Does nothing after SIDECAR_NONE or a failure. */
void sidecar_leave(struct sidecar *s, int how);

/*
 * For use between enter and leave. sidecar_changed: another program has written to the frame since
 * the last sidecar_seen, or may have. Call sidecar_seen when the frame in memory is of the newest
 * generation.
 *
 * Without the lock, the program that has incremented the generation may be about to write: what is
 * seen then counts as changed once we have the lock. After SIDECAR_NONE or a failure nothing has
 * changed, and sidecar_seen does nothing.
 */
bool sidecar_changed(struct sidecar *s, int how);
void sidecar_seen(struct sidecar *s, int how);

/* What the lock is wanted for: shared, or for the last exclusively. */
enum sidecar_for { SIDECAR_READ, SIDECAR_STORE, SIDECAR_COMMIT };

/* Waits until the lock is free, without taking it. False: it did not become free in time. */
NODISCARD bool sidecar_wait(struct sidecar *s, enum sidecar_for what);

/* Waits for `ns` nanoseconds at most. The caller goes on, whether or not the lock is free then. */
void sidecar_wait_some(struct sidecar *s, enum sidecar_for what, uint64_t ns);

/*
 * Logs it if commits have been waiting for half a minute; as for reads and stores, one line until
 * the lock has been free.
 */
void sidecar_tell_if_long(struct sidecar *s);

#endif
