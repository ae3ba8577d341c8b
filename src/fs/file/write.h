/*
 * Writing to an open file: the bytes wait in memory until they are flushed (sync.h). Offsets and
 * sizes are those of the file in the mount, in bytes. Unless said otherwise a function takes the
 * locks of the file itself.
 */
#ifndef FS_FILE_WRITE_H
#define FS_FILE_WRITE_H

#include "fs/file/file.h"

/*
 * Where a change comes from: an application's request, which happens now and is told of errors; or
 * the kernel's writeback cache, for which the kernel sends the time later, and drops what we refuse
 * (arrivals_refuse).
 */
enum file_source { FILE_FROM_CALLER, FILE_FROM_WRITEBACK };

/* Bytes to be written, and where. */
struct file_data {
	uint64_t at;
	struct view bytes;
	/*
	 * The buffer that begins with `bytes`, if a chunk may take it over instead of copying them;
	 * it is empty afterwards. NULL: the bytes are only borrowed.
	 */
	struct buf *own;
};

/* False: a write of n bytes at that offset fails with -EFBIG. */
bool file_can_reach(struct file *f, uint64_t at, uint64_t n);

/*
 * Returns the number of bytes written: all, or those before a failure. For writeback the error,
 * unless all were written.
 */
NODISCARD ssize_t file_write(struct file *f, const struct file_data *d, enum file_source from);

/*
 * -E2BIG: the chunks of the file are too large to be written within the memory that the options
 * allow; or its short last chunk has a block that is too large to be read.
 */
NODISCARD int file_check_writing(struct file *f);

/* Changes the length. The lock is held for writing. */
NODISCARD int file_resize_locked(struct file *f, uint64_t size);

#endif
