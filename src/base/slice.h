/*
 * For how long the scheduler lets a thread run before it looks at others that want to. A thread
 * with a short slice that wakes up takes the place of a running one with a longer slice, if it has
 * not had more than its share of time (Linux 6.12 and later).
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

/*
 * Of the calling thread, from now on: as of one that computes for long at a stretch. It gets as
 * much time as before, but those with little to do need not wait for it. Without effect where the
 * system cannot do that, or the thread has another policy than the usual one.
 */
void slice_lengthen(void);

#endif
