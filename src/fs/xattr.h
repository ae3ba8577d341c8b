/*
 * What a frame tells about itself in extended attributes of its file:
 *
 *   user.cframefs.pipeline   shuffle:4+zstd:1       user.cframefs.chunksize   1048576
 *   user.cframefs.ratio      2.28                   user.cframefs.blocksize   65536
 *   user.cframefs.stored     61688752 (bytes)       user.cframefs.meta.NAME   a metalayer's bytes
 *   user.cframefs.shape      [37, 53]               user.cframefs.dtype       <f8     (arrays)
 *
 * They can be read by name but are not listed, so that copying a file with all its attributes does
 * not try to set them. Pipeline, chunksize and blocksize can be set, and so can user.cframefs.tune
 * (wish.h): then they are attributes like any other, listed too, and have the value that was set.
 */
#ifndef FS_XATTR_H
#define FS_XATTR_H

#include "fs/file/file.h"

/* True: the inode is a frame, and the name begins like those above, whether or not it exists. */
bool xattr_is_ours(const struct inode *n, const char *name);

/*
 * Sets or removes one of those four on a frame or a directory. -EINVAL: the value is wrong; the log
 * says why.
 */
struct xattr_change {
	const char *name;
	const char *value; /* NULL: remove it */
	size_t size;
	int flags;
};
NODISCARD int xattr_change(struct fs *fs, struct inode *n, const struct xattr_change *x);

/* Appends the value of an attribute to *value. -ENODATA: the file does not have it. */
NODISCARD int xattr_get(struct fs *fs, struct inode *n, const char *name, struct buf *value);

#endif
