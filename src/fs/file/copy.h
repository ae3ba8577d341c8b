/*
 * Copying between frames, or inside one. Whole chunks are copied as they are
 * stored, without decoding, where source and target cut the file alike; the rest goes by bytes.
 */
#ifndef FS_FILE_COPY_H
#define FS_FILE_COPY_H

#include "fs/file/file.h"

struct file_copy {
	struct file *from, *to; /* may be the same; then the ranges do not overlap */
	uint64_t from_at, to_at, len;
	bool unread; /* answer: what failed is the source */
};

/*
 * Returns how many bytes were copied: all up to the end of the source, or fewer: a bounded
 * piece of a long copy, or what was done before something failed.
 */
NODISCARD ssize_t file_copy(struct file_copy *c);

#endif
