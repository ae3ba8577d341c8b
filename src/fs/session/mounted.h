/*
 * What can be done only through the mount, once it answers: learn our device number and mount id,
 * which keep us from descending into our own mount, give the guard the connection, and set the
 * kernel's read-ahead.
 */
#ifndef FS_SESSION_MOUNTED_H
#define FS_SESSION_MOUNTED_H

#include "fs/fs.h"

/*
 * Call once, when INIT has been answered, from a thread that serves no requests: it waits for the
 * answer to one. Sets guarded, kernel_reads_ahead, backing.own_dev and own_mount. If something else
 * has taken the mount's place by then, only the first is set.
 */
void mounted_begin(struct fs *fs);

#endif
