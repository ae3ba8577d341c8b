/*
 * The housekeeper: a thread that commits what was written a while ago. Before that, as soon as the
 * mount answers, it does what needs the mount from outside: reads its device number, arms the guard
 * and sets the kernel's read-ahead.
 */
#ifndef FS_KEEPER_H
#define FS_KEEPER_H

#include "fs/fs.h"

struct keeper;

/*
 * `answered` is called once, from the keeper's thread, when a stat of the mount point has returned.
 */
NODISCARD int keeper_start(struct keeper **k, struct fs *fs, void (*answered)(void *), void *ctx);

/* To be called when INIT is answered: the mount may be looked at. */
void keeper_wake(struct keeper *k);

void keeper_stop(struct keeper *k); /* NULL is fine */

/* Commits every file that has something to commit. Returns the first failure. */
NODISCARD int keeper_commit_all(struct fs *fs);

#endif
