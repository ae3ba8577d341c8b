#include "frame/io/ahead.h"

#include "base/container.h"
#include "frame/format/header.h"

#include <assert.h>

static struct io_ahead *ahead_of(struct io *io)
{
	return CONTAINER_OF(io, struct io_ahead, io);
}

/* The end of the root named by the first bytes; beyond that, the file has garbage. */
static uint64_t root_end(const struct io_ahead *a)
{
	uint64_t end = header_frame_len(view_of(a->head, a->nhead));
	return end && end < a->size ? end : a->size;
}

/* The first read has found the end of the file, after n bytes. */
static void take_all(struct io_ahead *a, size_t n)
{
	a->ntail = a->size = n;
	/* It was the end if the header gives the same length. */
	a->sized = header_frame_len(view_of(a->tail, n)) == n || io_size(a->under, &a->size) == 0;
}

/* `first`: the result of the first read, to a->tail. */
static void read_ends(struct io_ahead *a, ssize_t first)
{
	a->sized = io_size(a->under, &a->size) == 0;
	if (!a->sized)
		return;
	size_t nhead = min_u64(a->size, sizeof a->head);
	if (first >= 0)
		memcpy(a->head, a->tail, nhead);
	else if (io_pread(a->under, 0, span_of(a->head, nhead)) < 0)
		return;
	a->nhead = nhead;
	uint64_t end = root_end(a);
	if (first >= 0 && end <= (size_t)first) { /* it has been read already */
		a->ntail = (size_t)first;
		return;
	}
	size_t ntail = min_u64(end, sizeof a->tail);
	if (io_pread(a->under, end - ntail, span_of(a->tail, ntail)) < 0)
		return;
	a->tail_at = end - ntail;
	a->ntail = ntail;
}

/*
 * Reads the first bytes, then the size, then the last bytes of the root. In this order the root
 * named by the first bytes was complete before the size was read, even if another program is
 * committing. The first call reads a small file, or a small root, entirely. Failures are not
 * reported: what is missing is read when it is asked for.
 */
static void fill(struct io_ahead *a)
{
	ssize_t first = io_pread_start(a->under, span_of(a->tail, IO_AHEAD_START));

	a->tried = true;
	if (first >= 0 && first < IO_AHEAD_START)
		take_all(a, (size_t)first);
	else
		read_ends(a, first);
}

static int ahead_pread(struct io *io, uint64_t at, struct span dst)
{
	struct io_ahead *a = ahead_of(io);

	if (at <= a->nhead && dst.n <= a->nhead - at)
		memcpy(dst.p, a->head + at, dst.n);
	else if (at >= a->tail_at && at - a->tail_at <= a->ntail &&
		 dst.n <= a->ntail - (at - a->tail_at))
		memcpy(dst.p, a->tail + (at - a->tail_at), dst.n);
	else
		return io_pread(a->under, at, dst);
	return 0;
}

static int ahead_size(struct io *io, uint64_t *size)
{
	struct io_ahead *a = ahead_of(io);

	if (!a->tried)
		fill(a);
	if (!a->sized)
		return io_size(a->under, size);
	*size = a->size;
	return 0;
}

static uint64_t ahead_mount(struct io *io)
{
	return io_mount(ahead_of(io)->under);
}

static uint64_t ahead_next_data(struct io *io, uint64_t at)
{
	return io_next_data(ahead_of(io)->under, at);
}

static uint64_t ahead_taken(struct io *io)
{
	return io_taken(ahead_of(io)->under);
}

/* Nothing is written while a frame is opened. */
static const struct io_ops ahead_ops = {
	.pread = ahead_pread,
	.size = ahead_size,
	.mount = ahead_mount,
	.next_data = ahead_next_data,
	.taken = ahead_taken,
};

struct io *io_ahead_init(struct io_ahead *a, struct io *under)
{
	a->io.ops = &ahead_ops;
	a->under = under;
	io_ahead_again(&a->io);
	return &a->io;
}

void io_ahead_know(struct io_ahead *a, struct view all)
{
	assert(all.n <= sizeof a->tail);
	memcpy(a->tail, all.p, all.n);
	a->tried = a->sized = true;
	a->size = a->ntail = all.n;
}

struct view io_ahead_all(const struct io_ahead *a)
{
	return a->sized && a->ntail == a->size ? view_of(a->tail, a->ntail) : view_of(NULL, 0);
}

void io_ahead_again(struct io *io)
{
	struct io_ahead *a = ahead_of(io);

	assert(io->ops == &ahead_ops);
	a->tail_at = a->nhead = a->ntail = 0;
	a->tried = a->sized = false;
}
