/*
 * The content of a small file goes into the kernel's page cache while the file is opened, so that
 * whoever reads it next sends no request: of the four that he would wait for (LOOKUP, OPEN, READ,
 * FLUSH) three are left.
 *
 * Nobody else may open the file meanwhile: the kernel would take a write that is newer than what is
 * on its way, or wait for a page of which we wait for the lock. So `inode.preloading` is set before,
 * and file_get waits for it. Small means one block of the default size: the first byte would have
 * had all of it decoded anyway.
 */
#ifndef FS_OPS_PRELOAD_H
#define FS_OPS_PRELOAD_H

#include <stdbool.h>

struct file;
struct fs;
struct inode;

/* Whether it is worth it: the file that is being opened is small, and no other program's lock may
 * hold up its reading. */
bool preload_suits(struct file *f);

/*
 * With n->preloading set, which it clears, and before OPEN is answered. True: the kernel has the
 * content now, and is to keep it. Failures are left to whoever reads.
 */
bool preload_run(struct fs *fs, struct inode *n, struct file *f);

#endif
