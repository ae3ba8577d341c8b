/*
 * A process of its own that ends what SIGKILL leaves half dead. While we make the kernel write or
 * drop pages (notify.h, op_lseek), it waits for answers of ours; killed at that moment we can't
 * give them, and as long as one thread waits, the process lives on, holds the connection, and all
 * who use the mount hang. The guard learns of the death from the kernel and aborts the connection.
 *
 * It holds the file of fusectl that does so, opened while the mount was certainly ours. Numbers and
 * paths are used again by other mounts; that file does nothing any more when its connection has
 * ended. Where nobody has mounted fusectl and we may not (before Linux 5.2, or not root), there is
 * no guard.
 *
 * A pidfd can't replace the signal: it says nothing as long as one thread is left.
 */
#ifndef FS_GUARD_H
#define FS_GUARD_H

#include <sys/types.h>

/*
 * By the main thread, before all others, whose death it
 * looks for. No guard is no reason not to mount.
 */
void guard_start(void);

/*
 * What aborts the connection of that number, else -1. Whose it is the caller looks at afterwards.
 */
int guard_open(dev_t dev);

/* It is ours. The caller closes it. */
void guard_give(int control);

/* The end is an orderly one. */
void guard_stop(void);

#endif
