/*
 * Whether a directory is in a mount, or is the backing directory of one. The functions that look at
 * a single directory are for any_above, and do not use `arg`.
 */
#ifndef MOUNTS_H
#define MOUNTS_H

#include <stdbool.h>

/* Extended attributes that identify a mount: of its root, and of a file that shows a frame. */
#define MOUNT_STATS "user.cframefs.stats"   /* src/fs/stats.h */
#define MOUNT_STORED "user.cframefs.stored" /* src/fs/file/property.h */

/* True: `is_so` holds for the directory, or for one above it in the same file system. */
bool any_above(int dir, bool (*is_so)(void *arg, int dir), void *arg);

/* True: it is the root of a mount. */
bool is_mount_point(void *arg, int dir);

/*
 * True: it is the backing directory of a daemon that may write to it, and has locked it
 * (src/fs/backing/claim.h).
 */
bool has_daemon(void *arg, int dir);

/* True: a daemon that used it was killed, and its intent log has not been applied yet. */
bool has_unapplied_log(void *arg, int dir);

#endif
