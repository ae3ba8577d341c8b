/*
 * `x.b2frame.b2lock`: how programs of the reference library share a frame (FORMAT.md 17). Who reads
 * holds a shared flock, who writes an exclusive one, and adds one to a generation counter first.
 *
 * We never make one: it is there when somebody takes part. Looking for it costs a system call, and
 * is done when a file is opened, looked at anew, or committed.
 *
 * Lock order: file gate, sidecar, file lock. One thread enters once at a time.
 */
#ifndef FS_SIDECAR_H
#define FS_SIDECAR_H

#include "base/bytes.h"
#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sidecar {
	/* shared: by those who read; alone: by who commits, or opens the sidecar */
	pthread_rwlock_t turn;
	atomic_bool there;
	int fd;                /* under turn; -1 none */
	pthread_mutex_t lock;  /* for what follows */
	unsigned readers;      /* that share one flock */
	uint64_t generation;   /* that the frame in memory is of */
	bool warned;
};

void sidecar_init(struct sidecar *s);
void sidecar_deinit(struct sidecar *s);

/* That of the frame called `backing`, if there is one. */
void sidecar_look(struct sidecar *s, int dirfd, const char *backing);

/*
 * Until sidecar_leave nobody writes. *changed: somebody did, since the last sidecar_seen. Somebody
 * who does not let go makes us wait half a minute, and then go on without: a read of bytes that
 * change is a failed checksum. False: there is no sidecar, and nothing to leave.
 */
bool sidecar_enter(struct sidecar *s, bool *changed);
void sidecar_leave(struct sidecar *s);

/* What is in memory is of the newest generation. Called between enter and leave, of either kind. */
void sidecar_seen(struct sidecar *s);

/*
 * The same alone, for a commit; counted, so that readers look again. 1: to be left. 0: no sidecar.
 * -EAGAIN: somebody else does not let go.
 */
NODISCARD int sidecar_enter_alone(struct sidecar *s, bool *changed);
void sidecar_leave_alone(struct sidecar *s);

/* The sidecars of a frame that was renamed, or removed. They may not exist. */
void sidecar_rename(int dirfd, const char *from, int to_dirfd, const char *to);
void sidecar_remove(int dirfd, const char *backing);

#endif
