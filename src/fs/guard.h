/*
 * A process of its own that ends what SIGKILL leaves half dead. While we make the kernel write or drop pages
 * (notify.h, op_lseek), it waits for answers of ours; killed at that moment we can't give them, and as long as one
 * thread waits, the process lives on, holds the connection, and all who use the mount hang. The guard learns of the
 * death from the kernel and aborts the connection.
 *
 * It does that by fusectl, where that is mounted, or as root by a forced unmount; else nothing.
 */
#ifndef FS_GUARD_H
#define FS_GUARD_H

#include <sys/types.h>

/* By the main thread, before all others, whose death it looks for. No guard is no reason not to mount. */
void guard_start(const char *mountpoint);

/* The mount whose connection it is. */
void guard_tell(dev_t dev);

/* The end is an orderly one. */
void guard_stop(void);

#endif
