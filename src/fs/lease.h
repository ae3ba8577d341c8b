/*
 * Files on which another program, such as Samba, holds a lease (fcntl(2)). Opening one makes the
 * kernel break the lease, and may wait 45 seconds until the holder gives it up.
 */
#ifndef FS_LEASE_H
#define FS_LEASE_H

#include "base/err.h"

struct fs;

/*
 * backing_reopen, which waits for a lease unless `flags` have O_NONBLOCK. Another thread serves the
 * kernel meanwhile. No lock of ours is held.
 */
NODISCARD int lease_reopen(struct fs *fs, int fd, int flags);

#endif
