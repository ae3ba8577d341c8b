/*
 * The life of a mount: mounts, serves requests, and after a signal or an unmount commits
 * everything.
 */
#ifndef FS_SESSION_SESSION_H
#define FS_SESSION_SESSION_H

#include "fs/fs.h"

/*
 * Serves until the mount ends. Calls `ready` once, from another thread, when the mount answers.
 * Every failure has been reported on stderr or in the log.
 */
NODISCARD int session_run(struct fs *fs, void (*ready)(void *), void *ctx);

#endif
