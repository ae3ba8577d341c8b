/*
 * `x.b2frame.b2lock`: the file by which programs that use the reference library's locking share a
 * frame (FORMAT.md 17). A reader holds a shared flock on it; a writer holds an exclusive one, and
 * first adds one to the generation counter in it.
 *
 * We never create it: it is there if somebody uses it. Looking for it costs a system call, and is
 * done when a file is opened, looked up, stored to or committed.
 *
 * Who wants the lock while another program has it waits half a minute at most, counted for all of
 * them from when the lock was found held first; who comes later tries for a moment, or for two
 * seconds if nobody has tried for a while. It is waited for with nothing of ours held, and another
 * thread serves the kernel meanwhile (relief.h). Who holds a lock of ours tries for a moment only,
 * and starts again after a wait.
 *
 * Lock order: file gate, sidecar, file lock. A thread must not enter twice.
 */
#ifndef FS_FILE_SIDECAR_H
#define FS_FILE_SIDECAR_H

#include "base/bytes.h"
#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct relief;

/*
 * Tries that failed without one that did not in between: from when to when; and from when on they
 * came one soon after the other, since several short holds look like a long one to who seldom
 * looks. 0: none.
 */
struct sidecar_busy {
	uint64_t since, watched, seen;
};

struct sidecar {
	struct relief *relief; /* fixed */
	pthread_rwlock_t turn; /* alone: a commit, and to open it; shared: who reads or stores */
	atomic_bool there;     /* fd >= 0: to be asked without the lock */
	int fd;                /* under turn; -1 none */
	pthread_mutex_t lock;  /* for what follows */
	unsigned readers;      /* threads that share one flock ... */
	bool locked;           /* ... which was to be had */
	uint64_t generation;   /* of the frame that is in memory ... */
	bool unsure;           /* ... which was read while another program may have written it */
	struct sidecar_busy busy_shared, busy_alone;
	bool warned;
};

void sidecar_init(struct sidecar *s, struct relief *relief);
void sidecar_deinit(struct sidecar *s);

/* That another program has the lock, which was waited for by another sidecar of the same frame. */
void sidecar_know(struct sidecar *s, const struct sidecar_busy *busy);

/* Opens the sidecar of the frame `backing` in `dirfd`, if there is one and it is not open. */
void sidecar_look(struct sidecar *s, int dirfd, const char *backing);

/*
 * To read: until sidecar_leave no other program writes. *changed: one has, since the last
 * sidecar_seen. Waits for the lock. If it is not to be had in time, it goes on without: bytes that
 * change while they are read fail their checksum. False: there is no sidecar, and nothing to leave.
 */
bool sidecar_enter(struct sidecar *s, bool *changed);
void sidecar_leave(struct sidecar *s);

/*
 * The same for who holds locks of ours. 1: done. SIDECAR_WITHOUT: it goes on without the lock. 0:
 * there is no sidecar. -EAGAIN: it may be had after a wait.
 */
#define SIDECAR_WITHOUT 2
NODISCARD int sidecar_enter_soon(struct sidecar *s, bool *changed);

/*
 * To write what no reader looks at, for sidecar_leave: beside readers, and until then no other
 * program writes. 1: done. 0: there is no sidecar. -EAGAIN: the lock was not to be had soon.
 */
NODISCARD int sidecar_enter_store(struct sidecar *s, bool *changed);

/* The same without waiting even for a moment. */
NODISCARD int sidecar_try_store(struct sidecar *s, bool *changed);

/* Waits for the lock, and takes nothing. False: it was not to be had in time. */
enum sidecar_for { SIDECAR_READ, SIDECAR_STORE, SIDECAR_COMMIT };
NODISCARD bool sidecar_wait(struct sidecar *s, enum sidecar_for what);

/* For that time at most. Whoever comes back from it goes on with the lock or without. */
void sidecar_wait_some(struct sidecar *s, enum sidecar_for what, uint64_t ns);

/* Logs, once, that a commit has been waiting for half a minute, if it has. */
void sidecar_tell_if_long(struct sidecar *s);

/*
 * The frame in memory is of the newest generation. Between enter and leave, of either kind.
 * `entered`: how. Without the lock, who counted the generation up may write only now: then the
 * frame counts as changed for whoever has the lock next.
 */
void sidecar_seen(struct sidecar *s, int entered);

/*
 * To write: until sidecar_leave_alone no other program reads or writes. The generation is counted
 * up, so that readers will look again. 1: done, and to be left. 0: there is no sidecar. -EAGAIN:
 * the lock was not to be had soon.
 */
NODISCARD int sidecar_enter_alone(struct sidecar *s, bool *changed);
void sidecar_leave_alone(struct sidecar *s);

/* Renames or removes the sidecar together with its frame, if there is one. */
void sidecar_rename(int dirfd, const char *from, int to_dirfd, const char *to);
void sidecar_remove(int dirfd, const char *backing);

/*
 * Lock sidecars are hidden: a directory that only holds those is empty for its user. Takes them
 * away, or -ENOTEMPTY.
 */
NODISCARD int sidecar_remove_only(int dirfd, const char *name);

#endif
