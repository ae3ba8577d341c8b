/*
 * Whether a directory is in a mount, or is the backing directory of one. The questions about one
 * directory are for any_above, and need no `arg`.
 */
#ifndef MOUNTS_H
#define MOUNTS_H

#include <stdbool.h>

/* True: so is a directory, or one above it in its file system. */
bool any_above(int dir, bool (*is_so)(void *arg, int dir), void *arg);

/* True: it is the root of a mount. */
bool is_mount_point(void *arg, int dir);

/* True: it is the backing directory of a daemon that may write, and has locked it (fs/backing). */
bool has_daemon(void *arg, int dir);

/* True: a daemon was killed that had it, and its intent log has not been applied since. */
bool has_unapplied_log(void *arg, int dir);

#endif
