/*
 * A process beside the daemon that aborts the FUSE connection if the daemon was killed but cannot
 * exit. While we make the kernel write, take or drop pages (notify.h, push.h, op_lseek), the kernel
 * waits for replies of ours. If we are killed at that moment there are none: the waiting thread
 * keeps the process and its connection alive, and everybody who uses the mount hangs. The kernel
 * tells the guard when the daemon's main thread has ended.
 *
 * The guard holds the `abort` file of the connection in fusectl, opened while the mount was
 * certainly ours. Connection numbers and paths are reused by other mounts, but that file has no
 * effect once its connection has ended. Where fusectl is not mounted and we may not mount it
 * (before Linux 5.2, or not root), there is no guard.
 *
 * A pidfd cannot replace that signal: it reports nothing as long as any thread is left.
 *
 * One guard per process. All functions are for the main thread, except those that arm it.
 */
#ifndef FS_SESSION_GUARD_H
#define FS_SESSION_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Call before any other thread is started. Failures are ignored: a mount also works without a
 * guard.
 */
void guard_start(void);

/*
 * Arms the guard for the connection of this descriptor of /dev/fuse. That takes no request through
 * the mount, so it can be done before we make one. False: not possible; Linux before 6.18 does not
 * tell to which connection a descriptor belongs.
 */
bool guard_connection(int device);

/*
 * For use where that fails. guard_open returns a descriptor of the file that aborts the connection
 * with this device number; -1: not available. The caller then makes sure that the connection is
 * that of our mount, passes the descriptor to guard_give, and closes it.
 */
int guard_open(dev_t dev);
void guard_give(int control);

/* For a daemon that exits in order: ends the guard without an abort. */
void guard_stop(void);

#endif
