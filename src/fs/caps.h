/*
 * File capabilities that were set while a frame is open. What we write to the backing file later takes them away
 * there, as any write does, though the application's writes were all before: a commit puts them back. All take n->lock
 * themselves.
 */
#ifndef FS_CAPS_H
#define FS_CAPS_H

#include "fs/inode.h"

#define CAPS_XATTR "security.capability"

/* Before they are set on the backing file, or with no bytes: before they are removed, or when that failed. */
void caps_note(struct inode *n, struct view value);

/* The bytes of it that fit into `dst`, and how many there are; 0: ask the backing file. */
size_t caps_get(struct inode *n, struct span dst);

/* After a commit. 1: they were gone, and are there again. */
NODISCARD int caps_put_back(struct inode *n, int fd);

#endif
