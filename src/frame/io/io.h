/*
 * The file under a frame, behind a small table, so that a test can record the
 * calls or make the n-th one fail. io/file.c is the real one, io/mem.c a frame
 * in memory.
 *
 * Every call is whole: a short transfer is continued, EINTR repeated, but not for ever. A read
 * past the end is -EBADMSG: the caller has checked against the size, so the
 * file was cut under it.
 */
#ifndef FRAME_IO_IO_H
#define FRAME_IO_IO_H

#include "base/bytes.h"
#include "base/err.h"

#include <sys/types.h>

struct io;

struct io_ops {
	int (*pread)(struct io *io, uint64_t at, struct span dst);
	/* NULL is legal; see io_pread_start */
	ssize_t (*pread_start)(struct io *io, struct span dst);
	int (*pwrite)(struct io *io, uint64_t at, struct view src);
	int (*sync)(struct io *io);                                   /* data, and the size */
	int (*size)(struct io *io, uint64_t *size);
	int (*truncate)(struct io *io, uint64_t size);
	int (*punch)(struct io *io, uint64_t at, uint64_t len);       /* -EOPNOTSUPP is legal */
	uint64_t (*mount)(struct io *io);                             /* see io_mount */
	uint64_t (*next_data)(struct io *io, uint64_t at);            /* NULL: no holes */
	void (*close)(struct io *io);
};

struct io {
	const struct io_ops *ops;
};

/* The file behind a descriptor. That stays the caller's, or is taken in every case. */
NODISCARD int io_file_open(struct io **io, int fd);
NODISCARD int io_file_open_take(struct io **io, int fd);

/*
 * A borrowed descriptor of a file that nobody finds yet. Syncs do nothing: whoever gives the file
 * its name syncs all of it before.
 */
NODISCARD int io_file_open_draft(struct io **io, int fd);

/* Bytes in memory, copied in; for tests and frames inside other files. */
NODISCARD int io_mem_open(struct io **io, struct view bytes);
struct view io_mem_bytes(const struct io *io);

static inline int io_pread(struct io *io, uint64_t at, struct span dst)
{
	return io->ops->pread(io, at, dst);
}

/* The first bytes, as many as one call brings. -EOPNOTSUPP: ask for the size and use io_pread. */
static inline ssize_t io_pread_start(struct io *io, struct span dst)
{
	return io->ops->pread_start ? io->ops->pread_start(io, dst) : -EOPNOTSUPP;
}

static inline int io_pwrite(struct io *io, uint64_t at, struct view src)
{
	return io->ops->pwrite(io, at, src);
}

static inline int io_sync(struct io *io)
{
	return io->ops->sync(io);
}

static inline int io_size(struct io *io, uint64_t *size)
{
	return io->ops->size(io, size);
}

static inline int io_truncate(struct io *io, uint64_t size)
{
	return io->ops->truncate(io, size);
}

static inline int io_punch(struct io *io, uint64_t at, uint64_t len)
{
	return io->ops->punch(io, at, len);
}

/*
 * Tells this mount of the file system from all others since the machine was started; 0: not known.
 */
static inline uint64_t io_mount(struct io *io)
{
	return io->ops->mount(io);
}

/* Where the next bytes are that are no hole, at or behind `at`; UINT64_MAX: nowhere. */
static inline uint64_t io_next_data(struct io *io, uint64_t at)
{
	return io->ops->next_data ? io->ops->next_data(io, at) : at;
}

static inline void io_close(struct io *io)
{
	if (io)
		io->ops->close(io);
}

#endif
