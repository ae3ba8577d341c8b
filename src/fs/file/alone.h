/*
 * Changes to an open file that go beyond writing bytes. While one is made, no other thread reads or
 * writes the file, and no worker stores a chunk of it. Like a writer, each waits for memory first,
 * with no lock of ours held. Offsets and sizes are those of the file in the mount, in bytes.
 */
#ifndef FS_FILE_ALONE_H
#define FS_FILE_ALONE_H

#include "fs/file/file.h"

/*
 * Between these two calls the caller is alone with the file: gate and lock are held, and no chunk
 * is FLUSHING.
 */
void file_enter_alone(struct file *f);
void file_leave_alone(struct file *f);

/*
 * Makes the file end at `size`. What it grows by is a hole; nothing beyond `size` is missing any
 * more (arrivals.h). -EFBIG.
 */
NODISCARD int file_truncate(struct file *f, uint64_t size);

/* Grows to at least `size`. -EFBIG. */
NODISCARD int file_extend(struct file *f, uint64_t size);

/* Writes zeros, though not past the end of the file. Whole chunks become holes. */
NODISCARD int file_zero(struct file *f, uint64_t at, uint64_t len);

#endif
