/* The keeper: a thread that commits what was written a while ago. */
#ifndef FS_BACKGROUND_KEEPER_H
#define FS_BACKGROUND_KEEPER_H

#include "fs/fs.h"

struct keeper;

/*
 * Starts the thread. Before anything else it waits for keeper_wake and calls `answered`, for what
 * can only be done once the mount answers.
 */
NODISCARD int keeper_start(struct keeper **k, struct fs *fs, void (*answered)(void *), void *ctx);

/* Call when INIT has been answered: from then on the mount can be accessed. */
void keeper_wake(struct keeper *k);

void keeper_stop(struct keeper *k); /* NULL is fine */

/* At the end of the mount: commits all that has changed. Logs each failure, returns the first. */
NODISCARD int keeper_commit_all(struct fs *fs);

#endif
