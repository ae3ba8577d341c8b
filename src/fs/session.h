/*
 * The life of a mount: mount, serve, and on a signal or an unmount bring what is in
 * memory to the disk and leave.
 */
#ifndef FS_SESSION_H
#define FS_SESSION_H

#include "fs/fs.h"

#include <signal.h>

/*
 * Serves until the end. `ready` is called once, from another thread, when the
 * mount answers. One line on stderr or in the log for each failure.
 */
NODISCARD int session_run(struct fs *fs, void (*ready)(void *), void *ctx);

/* The signals that end a mount. To be blocked before the first thread starts. */
void session_signals(sigset_t *set);

#endif
