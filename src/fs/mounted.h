/*
 * What can be done only through the mount, once it answers: our device number and mount id are
 * learnt, which keep us from going down into ourselves, the guard gets the connection, and the
 * kernel's read-ahead is set.
 */
#ifndef FS_MOUNTED_H
#define FS_MOUNTED_H

#include "fs/fs.h"

/*
 * To be called once, when INIT has been answered, and not by a thread that serves requests: it
 * waits for the answer to one. Sets guarded, kernel_reads_ahead, backing.own_dev and own_mount. If
 * something else is in the mount's place by then, only the first is set.
 */
void mounted_begin(struct fs *fs);

#endif
