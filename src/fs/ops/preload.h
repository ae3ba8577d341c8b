/*
 * The content of a small file is put into the kernel's page cache while the file is being opened.
 * A program that opens, reads and closes it then waits for one request less: LOOKUP, OPEN and
 * FLUSH (not in a read-only mount), but no READ.
 *
 * This is safe only while nobody else has the file open. The kernel might hold a newer page that a
 * writer has just filled, and ours would cover it; or a page that is locked until a READ is
 * answered, and we would wait for it. So inode.busy is set to INODE_PRELOADING first, and file_get
 * waits until that is over.
 *
 * Small means one block of the default size, which reading the first byte would decode anyway.
 */
#ifndef FS_OPS_PRELOAD_H
#define FS_OPS_PRELOAD_H

#include <stdbool.h>

struct file;
struct fs;
struct inode;

/* True: the file is small, and no other program's lock may hold up its reading. */
bool preload_suits(struct file *f);

/*
 * Call between file_get and the answer to OPEN, while n->busy is INODE_PRELOADING; resets that.
 * True: the kernel has the content now, and must be told to keep it. False: it must not keep it:
 * storing it failed, or another program has changed the file meanwhile, and the notice of that came
 * before these pages. A failure is not reported: the next read will meet it.
 */
bool preload_run(struct fs *fs, struct inode *n, struct file *f);

#endif
