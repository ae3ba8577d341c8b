/*
 * What sidecar.c, which enters, and wait.c, which waits, need of each other. `op` is that of flock:
 * LOCK_SH or LOCK_EX.
 */
#ifndef FS_SIDECAR_IMPL_H
#define FS_SIDECAR_IMPL_H

#include "fs/sidecar/sidecar.h"

/* Tries to get the lock, and notes how that went. `entered` and `lock` are held. */
bool sidecar_try_lock(struct sidecar *s, int op);

/* Enters alone, without counting up the generation. -EAGAIN: another program has the lock. */
NODISCARD int sidecar_try_enter_alone(struct sidecar *s, enum sidecar_entered *how);

/* One thread's wait for the lock: pauses between its tries. Starts zeroed, but for `end`. */
struct rest {
	uint64_t grace; /* when it ends; 0: not begun */
	uint64_t end;   /* of the wait; 0: when it is over for all */
	uint64_t nap;   /* the next pause */
	bool relieved;  /* another thread serves the kernel meanwhile */
};

/*
 * After a try that has failed, with no lock of ours held: pauses. False: it has been waited for
 * long enough. sidecar_end_rest has to follow the last of them.
 */
bool sidecar_rest(struct sidecar *s, int op, struct rest *r);
void sidecar_end_rest(struct sidecar *s, struct rest *r);

/* As sidecar_rest, for a caller that holds locks of ours: for a moment at most. Needs no end. */
bool sidecar_rest_briefly(struct sidecar *s, int op, struct rest *r);

/* True: a reader's wait is over: it has been waited for long enough, by whichever threads. */
bool sidecar_is_over(struct sidecar *s);

/*
 * Logs that the lock is held for too long, once until it has been free. The caller has not entered
 * the sidecar.
 */
void sidecar_warn(struct sidecar *s, enum sidecar_for what);

#endif
