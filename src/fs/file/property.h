/*
 * The properties of a frame, which it shows as extended attributes of its file:
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
#ifndef FS_FILE_PROPERTY_H
#define FS_FILE_PROPERTY_H

#include "fs/file/file.h"

/* True: the inode is a frame, and the name begins like those above, whether or not it exists. */
bool property_may_be(const struct inode *n, const char *name);

/* A setxattr or removexattr of the application, of one of the four that can be set. */
struct property_change {
	const char *name;
	const char *value; /* NULL: remove it */
	size_t size;
	int flags; /* of setxattr */
};

/*
 * Makes the change to a frame or a directory. -EINVAL: the value is wrong; the log says why. No
 * lock is held.
 */
NODISCARD int property_change(struct fs *fs, struct inode *n, const struct property_change *x);

/*
 * Appends the value of a property to *value. -ENODATA: the file does not have it. No lock is held.
 */
NODISCARD int property_get(struct fs *fs, struct inode *n, const char *name, struct buf *value);

#endif
