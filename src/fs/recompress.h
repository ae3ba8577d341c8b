/*
 * -o recompress: while nobody asks the mount for anything, one thread of low priority
 * looks for files that have not changed for a while, open or not, and encodes their chunks again
 * at the highest level of their codec. Filters, item and block sizes stay as they are.
 *
 * What it replaces goes the way of every other change: new bytes to free space, then a commit. So
 * there is nothing to repair after a crash. A file that is done has a mark, an extended attribute
 * of its backing file, that holds for as long as nobody writes to it.
 */
#ifndef FS_RECOMPRESS_H
#define FS_RECOMPRESS_H

#include "fs/fs.h"

struct recompress;

/* Does nothing where it was not asked for: *r is NULL. */
NODISCARD int recompress_start(struct recompress **r, struct fs *fs);

/* Waits for the chunk that is being encoded. NULL is fine. */
void recompress_stop(struct recompress *r);

#endif
