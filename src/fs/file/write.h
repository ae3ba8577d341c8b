/*
 * Changing an open file: the bytes wait in memory until they are flushed (sync.h).
 * Offsets and sizes are those of the file in the mount, in bytes.
 */
#ifndef FS_FILE_WRITE_H
#define FS_FILE_WRITE_H

#include "fs/file/file.h"

/*
 * The time of a change: now, or one that the kernel will send later (for data from its writeback
 * cache).
 */
enum file_clock { FILE_CLOCK_NOW, FILE_CLOCK_KERNEL };

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

/* Returns the number of bytes written: all, or those before a failure. */
NODISCARD ssize_t file_write(struct file *f, const struct file_data *d, enum file_clock clock);

/* A chunk in its stored form, copied from another frame. */
struct file_chunk {
	uint32_t n;         /* its number in this file         */
	uint32_t len;       /* its decoded bytes               */
	uint32_t size;      /* the chunk size that n counts in */
	struct view stored; /* no bytes: a hole                */
	struct policy_origin origin;
};

/*
 * Replaces chunk n by this one; the file grows if the chunk ends behind its end. 1: done. 0: the
 * chunk does not fit there (policy.h, or another chunk size), and its bytes have to be copied
 * instead.
 */
NODISCARD int file_put_chunk(struct file *f, const struct file_chunk *c);

NODISCARD int file_truncate(struct file *f, uint64_t size);

/* The same for a caller between file_enter_alone and file_leave_alone. */
NODISCARD int file_resize_locked(struct file *f, uint64_t size);

/*
 * budget_enter for a change of the file. If there is no memory because the disk is full, it waits
 * for room that a removed file may leave when it is closed (room.h).
 */
NODISCARD int file_enter_budget(struct file *f, uint64_t most);

/* Writes zeros, though not past the end of the file. Whole chunks become holes. */
NODISCARD int file_zero(struct file *f, uint64_t at, uint64_t len);

/* Grows to at least `size`. */
NODISCARD int file_extend(struct file *f, uint64_t size);

/*
 * Between these two calls the caller is alone with the file: gate and lock are held, and no chunk
 * is FLUSHING.
 */
void file_enter_alone(struct file *f);
void file_leave_alone(struct file *f);

#endif
