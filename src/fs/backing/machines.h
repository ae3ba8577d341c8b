/*
 * A lock that other machines see, NAMES_MACHINES. What claim.h leaves on a directory is known to
 * one kernel only. Where the directory is on a file system that several machines may have,
 * whoever mounts it locks a file there as well. It is named as the lock sidecar of the intent
 * log, which has none: so it is hidden, and goes with an empty directory. It stays behind, since
 * to remove it would be a race with the next one.
 */
#ifndef FS_BACKING_MACHINES_H
#define FS_BACKING_MACHINES_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

/*
 * Sets *fd to a descriptor that holds the lock until it is closed; -1: other machines do not have
 * the directory, or cannot be told, which has been logged. `shared`: with others that read. -EBUSY:
 * another one has it, and `machine` is its name, "" if not known.
 */
NODISCARD int machines_lock(int root, bool shared, int *fd, char machine[static HOST_NAME_MAX + 1]);

#endif
