/*
 * Changing an open file: the bytes wait in memory until they are flushed (sync.h).
 * Offsets and sizes are those of the file in the mount, in bytes.
 */
#ifndef FS_FILE_WRITE_H
#define FS_FILE_WRITE_H

#include "fs/file/file.h"

/* The time of a change: now, or the kernel will send it later (data from its writeback cache). */
enum file_clock { FILE_CLOCK_NOW, FILE_CLOCK_KERNEL };

/* Bytes to be written, and where. */
struct file_data {
	uint64_t at;
	struct view bytes;
	/*
	 * The buffer that starts with `bytes`, if a chunk may take it over instead of copying them:
	 * it is empty then. NULL: the bytes are only borrowed.
	 */
	struct buf *own;
};

/* Returns how many bytes were written: all of them, or as many as before a failure. */
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
 * chunk cannot stand there (policy.h, other chunk size), and has to be copied by bytes.
 */
NODISCARD int file_put_chunk(struct file *f, const struct file_chunk *c);

NODISCARD int file_truncate(struct file *f, uint64_t size);

/* The same, for a caller that is alone with the file. */
NODISCARD int file_resize_locked(struct file *f, uint64_t size);

/*
 * budget_enter, for a change of the file. What fills the memory may find room when a file that was
 * just removed is closed: that is waited for.
 */
NODISCARD int file_enter_budget(struct file *f, uint64_t most);

/* Fills with zeros, up to the end of the file: whole chunks become holes. */
NODISCARD int file_zero(struct file *f, uint64_t at, uint64_t len);

/* Grows to at least `size`. */
NODISCARD int file_extend(struct file *f, uint64_t size);

/* Between these two the caller is alone with the file: gate and lock held, no chunk FLUSHING. */
void file_enter_alone(struct file *f);
void file_leave_alone(struct file *f);

#endif
