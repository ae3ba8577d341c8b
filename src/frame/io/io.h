/*
 * The file under a frame, behind a small table of functions, so that a test can record the calls or
 * make the n-th one fail. io/file.c is the real one; io/mem.c keeps a frame in memory.
 *
 * Every call transfers everything: short transfers are continued, and EINTR is retried, though not
 * forever. Reading past the end is -EBADMSG: since the caller has checked against the size, the
 * file must have been truncated meanwhile.
 */
#ifndef FRAME_IO_IO_H
#define FRAME_IO_IO_H

#include "base/buf.h"

#include <sys/types.h>

struct io;

struct io_ops {
	int (*pread)(struct io *io, uint64_t at, struct span dst);
	/* NULL is legal; see io_pread_start */
	ssize_t (*pread_start)(struct io *io, struct span dst);
	int (*pwrite)(struct io *io, uint64_t at, struct view src);
	int (*sync)(struct io *io);                                   /* data and size */
	int (*size)(struct io *io, uint64_t *size);
	int (*truncate)(struct io *io, uint64_t size);
	int (*punch)(struct io *io, uint64_t at, uint64_t len);       /* -EOPNOTSUPP is legal */
	uint64_t (*mount)(struct io *io);                             /* NULL: not known */
	uint64_t (*next_data)(struct io *io, uint64_t at);            /* NULL: no holes */
	uint64_t (*taken)(struct io *io);                             /* NULL: not known */
	uint64_t (*room)(struct io *io);                              /* NULL: not known */
	int (*reserve)(struct io *io, uint64_t at, uint64_t len);     /* NULL: see io_reserve */
	uint64_t (*changed)(struct io *io);                           /* NULL: not known */
	void (*close)(struct io *io);
};

struct io {
	const struct io_ops *ops;
};

/* An io for a descriptor. io_file_open borrows it; _take takes it, even if it fails. */
NODISCARD int io_file_open(struct io **io, int fd);
NODISCARD int io_file_open_take(struct io **io, int fd);

/*
 * The same for a file that nobody can find yet; the descriptor is borrowed. Syncs do nothing:
 * whoever gives the file its name syncs it first.
 */
NODISCARD int io_file_open_draft(struct io **io, int fd);

/* Bytes in memory, which are copied. For tests, and for frames inside other files. */
NODISCARD int io_mem_open(struct io **io, struct view bytes);
struct view io_mem_bytes(const struct io *io);

NODISCARD static inline int io_pread(struct io *io, uint64_t at, struct span dst)
{
	return io->ops->pread(io, at, dst);
}

/* Reads `len` bytes into *out, which must be empty; the caller frees it even if this fails. */
NODISCARD static inline int io_pread_buf(struct io *io, uint64_t at, size_t len, struct buf *out)
{
	TRY(buf_reserve(out, len));
	out->n = len;
	return io_pread(io, at, buf_span(out));
}

/*
 * Reads the first bytes of the file, as many as one call returns. -EOPNOTSUPP: ask for the size,
 * and use io_pread.
 */
NODISCARD static inline ssize_t io_pread_start(struct io *io, struct span dst)
{
	return io->ops->pread_start ? io->ops->pread_start(io, dst) : -EOPNOTSUPP;
}

NODISCARD static inline int io_pwrite(struct io *io, uint64_t at, struct view src)
{
	return io->ops->pwrite(io, at, src);
}

NODISCARD static inline int io_sync(struct io *io)
{
	return io->ops->sync(io);
}

NODISCARD static inline int io_size(struct io *io, uint64_t *size)
{
	return io->ops->size(io, size);
}

NODISCARD static inline int io_truncate(struct io *io, uint64_t size)
{
	return io->ops->truncate(io, size);
}

NODISCARD static inline int io_punch(struct io *io, uint64_t at, uint64_t len)
{
	return io->ops->punch(io, at, len);
}

/* A number that no other mount has or, since Linux 6.8, ever had. 0: unknown, before Linux 5.8. */
static inline uint64_t io_mount(struct io *io)
{
	return io->ops->mount ? io->ops->mount(io) : 0;
}

/* The offset, at or after `at`, of the next data that is not a hole; UINT64_MAX: there is none. */
static inline uint64_t io_next_data(struct io *io, uint64_t at)
{
	return io->ops->next_data ? io->ops->next_data(io, at) : at;
}

/* The bytes that the file takes on the disk, without holes, roughly. UINT64_MAX: unknown. */
static inline uint64_t io_taken(struct io *io)
{
	return io->ops->taken ? io->ops->taken(io) : UINT64_MAX;
}

/* The free bytes of the disk, of which others may take some at any time. UINT64_MAX: unknown. */
static inline uint64_t io_room(struct io *io)
{
	return io->ops->room ? io->ops->room(io) : UINT64_MAX;
}

/*
 * Takes disk space for these bytes, which may lie beyond the end of the file; neither they nor its
 * length change. Beyond the end, io_truncate gives it back. -EOPNOTSUPP: not on this file system.
 */
NODISCARD static inline int io_reserve(struct io *io, uint64_t at, uint64_t len)
{
	return io->ops->reserve ? io->ops->reserve(io, at, len) : -EOPNOTSUPP;
}

/* The file's ctime in ns, as of the last io_size, or of this call. 0: unknown. */
static inline uint64_t io_changed(struct io *io)
{
	return io->ops->changed ? io->ops->changed(io) : 0;
}

static inline void io_close(struct io *io)
{
	if (io)
		io->ops->close(io);
}

#endif
