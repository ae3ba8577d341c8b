/*
 * `x.b2frame.b2lock`: the file by which programs that use the reference library's locking share a
 * frame (FORMAT.md 17). A reader holds a shared flock on it; a writer holds an exclusive one, and
 * first adds one to the generation counter in it.
 *
 * We never create it: it is there if somebody uses it. Looking for it costs a system call, and is
 * done when a file is opened, looked up, stored to or committed.
 *
 * While another program has the lock, our threads wait for it for half a minute. That is counted
 * once for all of them, from the first try that failed: whoever comes after it is over tries for a
 * moment only, or for two seconds where nobody has tried for a while, since the lock may have been
 * free meanwhile. A thread waits with no lock of ours held, and another one serves the kernel in
 * its place (relief.h). A thread that does hold one tries for a moment; its caller gives the lock
 * back, waits (sidecar_wait), and starts again.
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
 * How long the lock has been held, as far as our tries tell: a row of tries that all failed. All
 * times are of meter_now. Tries that are far apart prove little, as the lock may have been free in
 * between; so `watched` says since when they have come in close succession.
 */
struct sidecar_busy {
	uint64_t since;   /* the first of the row; 0: the last try has succeeded */
	uint64_t watched; /* from here on there were no long pauses between them */
	uint64_t seen;    /* the newest                                          */
};

struct sidecar {
	struct relief *relief; /* fixed */
	struct inodes *inodes; /* which count the descriptor; fixed */
	atomic_bool *told;     /* that it is held for too long: one for all of a frame; fixed */
	/* Alone: a commit, and to open it; shared: who reads or stores. */
	pthread_rwlock_t entered;
	atomic_bool there;     /* fd >= 0: to be asked without the lock */
	int fd;                /* under entered; -1 none */
	pthread_mutex_t lock;  /* for what follows, unless entered is held alone */
	unsigned readers;      /* threads that share one flock ... */
	bool locked;           /* ... which was to be had */
	uint64_t generation;   /* of the frame that is in memory ... */
	bool unsure;           /* ... which was read while another program may have written it */
	struct sidecar_busy busy_shared, busy_alone;
};

/* All are borrowed. */
void sidecar_init(struct sidecar *s, struct relief *relief, struct inodes *inodes,
		  atomic_bool *told);
void sidecar_deinit(struct sidecar *s);

/* Takes over how long the lock has been held, as known by another sidecar of the same frame. */
void sidecar_know(struct sidecar *s, const struct sidecar_busy *busy);

/*
 * Opens the sidecar of the frame `backing` in `dirfd`, if there is one and it is not open. After a
 * failure there may be one.
 */
NODISCARD int sidecar_look(struct sidecar *s, int dirfd, const char *backing);

/*
 * True: we may not write to it, so that no reader could be told of a commit: sidecar_enter_alone
 * will fail with -EACCES. Logged once.
 */
bool sidecar_is_read_only(struct sidecar *s);

/*
 * How one of the functions below has entered: its result, or *how. Those that return an int fail
 * with -EAGAIN where another program has the lock; after any failure *how is SIDECAR_NONE, so that
 * leaving is right in every case. *changed: another program has written to the frame since the last
 * sidecar_seen.
 */
enum sidecar_entered {
	SIDECAR_NONE,    /* nobody shares the frame: there is nothing to leave            */
	SIDECAR_LOCKED,  /* the lock is ours, beside other readers                        */
	SIDECAR_ALONE,   /* the lock is ours alone                                        */
	SIDECAR_WITHOUT, /* the other program has had it for too long: gone on without it */
};

/*
 * To read: until sidecar_leave no other program writes. Waits for the lock, and goes on without it
 * if it is not to be had in time: bytes that change while they are read fail their checksum.
 */
enum sidecar_entered sidecar_enter(struct sidecar *s, bool *changed);

/* The same for a caller that holds locks of ours, and must not wait: tries for a moment only. */
NODISCARD int sidecar_enter_soon(struct sidecar *s, enum sidecar_entered *how, bool *changed);

/*
 * To write what no reader looks at: beside readers, and until sidecar_leave no other program
 * writes. Never goes on without the lock. The second form does not wait even for a moment.
 */
NODISCARD int sidecar_enter_store(struct sidecar *s, enum sidecar_entered *how, bool *changed);
NODISCARD int sidecar_try_enter_store(struct sidecar *s, enum sidecar_entered *how, bool *changed);

/* Ends any of these, and sidecar_enter_alone. Does nothing after SIDECAR_NONE. */
void sidecar_leave(struct sidecar *s, enum sidecar_entered how);

/* What the lock is wanted for: to be shared, or for the last alone. */
enum sidecar_for { SIDECAR_READ, SIDECAR_STORE, SIDECAR_COMMIT };

/* Waits for the lock, and takes nothing. False: it was not to be had in time. */
NODISCARD bool sidecar_wait(struct sidecar *s, enum sidecar_for what);

/* Waits for `ns` nanoseconds at most. The caller goes on, whether the lock is free then or not. */
void sidecar_wait_some(struct sidecar *s, enum sidecar_for what, uint64_t ns);

/*
 * Logs that a commit has been waiting for half a minute, if it has; as with reads and stores that
 * do, one line until the lock has been free.
 */
void sidecar_tell_if_long(struct sidecar *s);

/*
 * To be called between enter and leave: the frame in memory is of the newest generation. Without
 * the lock, the program that has incremented the generation may be about to write; so then the
 * frame counts as changed once we have the lock. Does nothing after SIDECAR_NONE.
 */
void sidecar_seen(struct sidecar *s, enum sidecar_entered how);

/*
 * To write: until sidecar_leave no other program reads or writes. The generation is counted
 * up, so that readers will look again. Tries for a moment only; never goes on without the lock.
 */
NODISCARD int sidecar_enter_alone(struct sidecar *s, enum sidecar_entered *how, bool *changed);

#endif
