/*
 * The housekeeper: one thread that commits what was written a while ago, and
 * before that, once the mount answers, sets what can only be set from outside.
 */
#ifndef FS_KEEPER_H
#define FS_KEEPER_H

#include "fs/fs.h"

struct keeper;

/* `answered` is called once, from the keeper's thread, when a stat of the mount point came back. */
NODISCARD int keeper_start(struct keeper **k, struct fs *fs, void (*answered)(void *), void *ctx);

/* The kernel has been told that we are here: the mount may be looked at. */
void keeper_wake(struct keeper *k);

void keeper_stop(struct keeper *k); /* NULL is fine */

/* Commits every file that has something to commit; the first failure. */
NODISCARD int keeper_commit_all(struct fs *fs);

#endif
