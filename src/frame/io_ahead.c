#include "frame/io_ahead.h"

/* Failure is none: what is not here is read when it is asked for. */
static void fill(struct io_ahead *a)
{
	uint64_t size;

	a->tried = true;
	if (io_size(a->under, &size) < 0)
		return;
	size_t nhead = size > sizeof a->tail ? sizeof a->head : 0, ntail = min_u64(size, sizeof a->tail);
	if (nhead && io_pread(a->under, 0, span_of(a->head, nhead)) < 0)
		return;
	a->nhead = nhead;
	if (io_pread(a->under, size - ntail, span_of(a->tail, ntail)) < 0)
		return;
	a->tail_at = size - ntail;
	a->ntail = ntail;
}

static int ahead_pread(struct io *io, uint64_t at, struct span dst)
{
	struct io_ahead *a = (struct io_ahead *)io;

	if (!a->tried)
		fill(a);
	if (at <= a->nhead && dst.n <= a->nhead - at)
		memcpy(dst.p, a->head + at, dst.n);
	else if (at >= a->tail_at && at - a->tail_at <= a->ntail && dst.n <= a->ntail - (at - a->tail_at))
		memcpy(dst.p, a->tail + (at - a->tail_at), dst.n);
	else
		return io_pread(a->under, at, dst);
	return 0;
}

static int ahead_pwrite(struct io *io, uint64_t at, struct view src)
{
	struct io_ahead *a = (struct io_ahead *)io;

	a->nhead = a->ntail = 0;
	return io_pwrite(a->under, at, src);
}

static int ahead_sync(struct io *io)
{
	return io_sync(((struct io_ahead *)io)->under);
}

static int ahead_size(struct io *io, uint64_t *size)
{
	return io_size(((struct io_ahead *)io)->under, size);
}

static int ahead_truncate(struct io *io, uint64_t size)
{
	struct io_ahead *a = (struct io_ahead *)io;

	a->nhead = a->ntail = 0;
	return io_truncate(a->under, size);
}

static int ahead_punch(struct io *io, uint64_t at, uint64_t len)
{
	struct io_ahead *a = (struct io_ahead *)io;

	a->nhead = a->ntail = 0;
	return io_punch(a->under, at, len);
}

static uint64_t ahead_mount(struct io *io)
{
	return io_mount(((struct io_ahead *)io)->under);
}

static void ahead_close(struct io *io)
{
	(void)io;
}

static const struct io_ops ahead_ops = {
	.pread = ahead_pread,
	.pwrite = ahead_pwrite,
	.sync = ahead_sync,
	.size = ahead_size,
	.truncate = ahead_truncate,
	.punch = ahead_punch,
	.mount = ahead_mount,
	.close = ahead_close,
};

struct io *io_ahead_init(struct io_ahead *a, struct io *under)
{
	a->io.ops = &ahead_ops;
	a->under = under;
	a->tried = false;
	a->tail_at = a->nhead = a->ntail = 0;
	return &a->io;
}
