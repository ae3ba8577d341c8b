/*
 * The keeper: a thread that commits what was written a while ago. When the mount first answers, it
 * does what has to be done through the mount: it reads its device number, arms the guard and sets
 * the kernel's read-ahead.
 */
#ifndef FS_KEEPER_H
#define FS_KEEPER_H

#include "fs/fs.h"

struct keeper;

/* Starts the thread. It calls `answered` once, when a stat of the mount point has returned. */
NODISCARD int keeper_start(struct keeper **k, struct fs *fs, void (*answered)(void *), void *ctx);

/* To be called when INIT is answered: from then on the mount can be accessed. */
void keeper_wake(struct keeper *k);

void keeper_stop(struct keeper *k); /* NULL is fine */

/* At the end of the mount: commits all that has changed. Logs each failure, returns the first. */
NODISCARD int keeper_commit_all(struct fs *fs);

#endif
