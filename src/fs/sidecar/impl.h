/*
 * What sidecar.c, which enters, and wait.c, which waits, need of each other. `op` is that of flock:
 * LOCK_SH or LOCK_EX.
 */
#ifndef FS_SIDECAR_IMPL_H
#define FS_SIDECAR_IMPL_H

#include "fs/sidecar/sidecar.h"

/* Tries to get the lock, and notes how that went. `entered` and `lock` are held. */
bool sidecar_try_lock(struct sidecar *s, int op);

/* Enters alone, without incrementing the generation. -EAGAIN: another program has the lock. */
NODISCARD int sidecar_try_enter_alone(struct sidecar *s);

/* One thread's wait for the lock: pauses between its tries. Starts zeroed, except for `end`. */
struct rest {
	uint64_t grace; /* until then it waits in any case; 0: not begun */
	uint64_t end;   /* of the wait; 0: when waiting is over for all threads */
	uint64_t nap;   /* the next pause */
	bool relieved;  /* another thread serves the kernel meanwhile */
};

/*
 * Call after a failed try, with no lock of ours held: pauses. False: the wait has been long enough.
 * sidecar_end_rest has to follow the last call.
 */
bool sidecar_rest(struct sidecar *s, int op, struct rest *r);
void sidecar_end_rest(struct sidecar *s, struct rest *r);

/*
 * As sidecar_rest, for a caller that holds locks of ours: for a moment at most. Without
 * sidecar_end_rest.
 */
bool sidecar_rest_briefly(struct sidecar *s, int op, struct rest *r);

/* True: readers need not wait any more: threads have waited for long enough in all. */
bool sidecar_is_over(struct sidecar *s);

/*
 * Logs that the lock has been held for too long; only once, until it has been free. The caller must
 * not have entered the sidecar.
 */
void sidecar_warn(struct sidecar *s, enum sidecar_for what);

#endif
