/*
 * A process beside the daemon that aborts the FUSE connection when the daemon was killed and cannot
 * die. While we make the kernel write or drop pages (notify.h, op_lseek), the kernel waits for
 * answers of ours. Killed at that moment, we cannot give them; the waiting thread keeps the process
 * and its connection alive, and everybody who uses the mount hangs. The guard is told by the kernel
 * that the daemon's main thread has ended.
 *
 * It holds the connection's `abort` file of fusectl, opened while the mount was certainly ours.
 * Numbers and paths are used again by other mounts, but that file has no effect once its connection
 * has ended. Where fusectl is not mounted and we may not mount it (before Linux 5.2, or not root),
 * there is no guard.
 *
 * A pidfd cannot replace the signal: it says nothing as long as one thread is left.
 *
 * One guard in a process; all functions are for the main thread, except guard_open and guard_give.
 */
#ifndef FS_GUARD_H
#define FS_GUARD_H

#include <sys/types.h>

/* Before any other thread is started. Failures are ignored: a mount works without a guard, too. */
void guard_start(void);

/*
 * The file that aborts the connection with this device number; -1: not available. The caller makes
 * sure afterwards that it was our mount, gives it to the guard, and closes it.
 */
int guard_open(dev_t dev);
void guard_give(int control);

/* The daemon ends in order: ends the guard without an abort. */
void guard_stop(void);

#endif
