/*
 * How long the scheduler lets a thread run before it considers others: its time slice. A waking
 * thread with a short slice preempts a running one with a longer slice, unless it has had more than
 * its share of time (Linux 6.12 and later).
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

/*
 * Lengthens the slice of the calling thread, for long computations. It gets as much time as before,
 * but threads with little to do need not wait for it. No-op if the system does not support this, or
 * the thread does not have the default policy.
 */
void slice_lengthen(void);

#endif
