/*
 * A lock that other machines see, NAMES_MACHINES. What claim.h leaves on a directory is known to
 * one kernel only. Where the directory is on a file system that several machines may share, the
 * daemon locks a file there as well. Its name is that of the lock sidecar of the intent log, which
 * has none: so it is hidden, and removed with an otherwise empty directory. It is left behind,
 * since removing it would race with the next daemon.
 */
#ifndef FS_BACKING_MACHINES_H
#define FS_BACKING_MACHINES_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

/*
 * Sets *fd to a descriptor that holds the lock until it is closed; -1: the directory is not on such
 * a file system, or needs no lock, or cannot be locked, which has been logged. `shared`: together
 * with others that only read. -EBUSY: another machine has it; `machine` is its name, "" if not
 * known.
 */
NODISCARD int machines_lock(int root, bool shared, int *fd, char machine[static HOST_NAME_MAX + 1]);

#endif
