/*
 * Copying between frames, or within one. Whole chunks are copied in their stored form, without
 * decoding, where both files have the same chunk borders; the rest is copied as bytes. No lock of
 * ours is held.
 */
#ifndef FS_FILE_COPY_H
#define FS_FILE_COPY_H

#include "fs/file/file.h"

struct file_copy {
	struct file *from, *to; /* may be the same; then the ranges do not overlap */
	uint64_t from_at, to_at, len;
	bool unread; /* result: it was the source that failed */
};

/*
 * Returns the number of bytes copied: all up to the end of the source, or fewer, since one call
 * copies a bounded amount and stops at a failure.
 */
NODISCARD ssize_t file_copy(struct file_copy *c);

#endif
