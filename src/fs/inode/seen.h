/*
 * How changes by other programs are noticed: the attributes that the backing file was last seen to
 * have (struct inode_seen) are compared with those of now. All are called under n->lock.
 */
#ifndef FS_INODE_SEEN_H
#define FS_INODE_SEEN_H

#include "fs/inode/inode.h"

/* True: it was seen before, and has the same size and mtime. */
bool seen_is_same(const struct inode *n, const struct stat *st);

/*
 * True: another program may have changed the file: size or mtime differ, or are the same but so
 * young that a later change may have kept them. Never while a change of ours waits for its commit.
 */
bool seen_is_foreign(const struct inode *n, const struct stat *st);

/* True: it was seen before with these attributes, and they are not that young any more. */
bool seen_is_settled(const struct inode *n, const struct stat *st);

/*
 * Notes the attributes for later comparisons. They are asked for before the content is read, so
 * that a change in between shows.
 */
void seen_note(struct inode *n, const struct stat *st);

#endif
