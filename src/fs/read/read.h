/*
 * Reading an open file, newest bytes first: what waits in memory, the block cache, the frame.
 * Offsets and sizes are those of the file in the mount, in bytes. Unless said otherwise a function
 * takes the lock itself.
 */
#ifndef FS_READ_READ_H
#define FS_READ_READ_H

#include "fs/file/file.h"
#include "fs/read/reply.h"

/* What is to be read, and for whom. */
struct file_request {
	uint64_t at, len;
	bool direct; /* bypasses the page cache: the kernel does not read ahead */
	bool (*gone)(void *who); /* nobody wants it any more (slow.h); NULL: not known */
	void *who;
};

/*
 * Reads q->len bytes from q->at; fewer only at the end of the file. The caller must call reply_end
 * afterwards in every case.
 */
NODISCARD int file_read(struct file *f, const struct file_request *q, struct reply *r);

/*
 * Reads again what a reader has read, without being counted as part of its stream. Takes no locks
 * of other programs; not for arrays. As with file_read there may be fewer bytes, and reply_end must
 * follow.
 */
NODISCARD int file_read_again(struct file *f, uint64_t at, uint64_t len, struct reply *r);

/* As file_read, into dst. Returns the number of bytes. */
NODISCARD ssize_t file_read_at(struct file *f, uint64_t at, struct span dst);

/* Reads dst.n bytes, all of them inside the file. Not for arrays. The lock is held. */
NODISCARD int file_read_locked(struct file *f, uint64_t at, struct span dst);

/*
 * Decodes blocks into the cache, if the lock is free. Failures are left to the reader that will
 * meet them.
 */
void file_decode_ahead(struct file *f, uint64_t at, uint64_t len);

/*
 * Reads bytes [lo, lo + dst.n) of chunk n as stored in the frame, through the cache. The lock is
 * held.
 */
NODISCARD int file_read_stored(struct file *f, uint32_t n, uint32_t lo, struct span dst);

/*
 * SEEK_DATA or SEEK_HOLE, as lseek(2), at chunk precision: the end of the file is a hole. -ENXIO:
 * `at` is not before the end, or there is no data from there on.
 */
NODISCARD off_t file_seek(struct file *f, uint64_t at, int whence);

#endif
