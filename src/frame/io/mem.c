#include "frame/io/io.h"

#include "base/buf.h"
#include "base/container.h"

#include <assert.h>

struct io_mem {
	struct io io;
	struct buf bytes;
};

static struct buf *bytes_of(const struct io *io)
{
	return &CONTAINER_OF(io, struct io_mem, io)->bytes;
}

static int mem_pread(struct io *io, uint64_t at, struct span dst)
{
	const struct buf *b = bytes_of(io);
	if (at > b->n || dst.n > b->n - at)
		return CORRUPT("file ends too early", at);
	if (dst.n)
		memcpy(dst.p, b->p + at, dst.n);
	return 0;
}

/* New bytes are zero, as in a file. */
static int mem_truncate(struct io *io, uint64_t size)
{
	struct buf *b = bytes_of(io);
	if (size > b->n) {
		TRY(buf_reserve(b, size > b->cap ? max_u64(size, 2 * b->cap) : size));
		memset(b->p + b->n, 0, size - b->n);
	}
	b->n = size;
	return 0;
}

static int mem_pwrite(struct io *io, uint64_t at, struct view src)
{
	uint64_t end;
	if (add_overflows(at, src.n, &end))
		return -EFBIG;
	if (end > bytes_of(io)->n)
		TRY(mem_truncate(io, end));
	if (src.n)
		memcpy(bytes_of(io)->p + at, src.p, src.n);
	return 0;
}

static int mem_sync(struct io *io)
{
	return 0;
}

static int mem_size(struct io *io, uint64_t *size)
{
	*size = bytes_of(io)->n;
	return 0;
}

static int mem_punch(struct io *io, uint64_t at, uint64_t len)
{
	struct buf *b = bytes_of(io);
	if (at < b->n)
		memset(b->p + at, 0, min_u64(len, b->n - at));
	return 0;
}

static void mem_close(struct io *io)
{
	buf_free(bytes_of(io));
	mem_free(CONTAINER_OF(io, struct io_mem, io));
}

static const struct io_ops mem_ops = {
	.pread = mem_pread,
	.pwrite = mem_pwrite,
	.sync = mem_sync,
	.size = mem_size,
	.truncate = mem_truncate,
	.punch = mem_punch,
	.close = mem_close,
};

int io_mem_open(struct io **io, struct view bytes)
{
	struct io_mem *m = mem_zalloc(sizeof *m);
	if (!m)
		return -ENOMEM;
	m->io.ops = &mem_ops;
	if (buf_append(&m->bytes, bytes) < 0) {
		mem_close(&m->io);
		return -ENOMEM;
	}
	*io = &m->io;
	return 0;
}

struct view io_mem_bytes(const struct io *io)
{
	assert(io->ops == &mem_ops);
	return buf_view(bytes_of(io));
}
