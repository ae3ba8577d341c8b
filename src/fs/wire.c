#include "fs/wire.h"

#include "fs/ops.h"
#include "fs/spare.h"
#include "fs/workspace.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

/* the INIT request that offers the flag, until it is answered; else 0 */
static _Atomic uint64_t offered_by;
static atomic_bool ours;
/* by the request that this thread has read last */
static _Thread_local enum { UNSAID, KEEPS, KILLS } said;

struct request {
	struct fuse_in_header h;
	union {
		struct fuse_init_in init;
		struct fuse_write_in write;
		struct fuse_setattr_in setattr;
		struct fuse_open_in open;
		struct fuse_create_in create;
	};
};

/* As much as libfuse lets the kernel send; what is longer stays where libfuse looks for it. */
#define DATA_MOST (1u << 20)
#define WRITE_HEAD (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

static struct spare *spare;
static _Thread_local const uint8_t *data; /* of the WRITE that it has read last; else NULL */

#define HAS(n, part) ((n) >= offsetof(struct request, part) + sizeof(((struct request *)0)->part))

static void note(bool kills)
{
	said = kills ? KILLS : KEEPS;
}

/* n bytes of a request; libfuse judges what is wrong with it. */
static void look(const struct request *q, size_t n)
{
	said = UNSAID;
	if (!HAS(n, h))
		return;
	switch (q->h.opcode) {
	case FUSE_WRITE:
		note(!HAS(n, write) || q->write.write_flags & FUSE_WRITE_KILL_SUIDGID);
		break;
	case FUSE_SETATTR:
		note(!HAS(n, setattr) || q->setattr.valid & FATTR_KILL_SUIDGID);
		break;
	case FUSE_OPEN:
		note(!HAS(n, open) || q->open.open_flags & FUSE_OPEN_KILL_SUIDGID);
		break;
	case FUSE_CREATE:
		note(!HAS(n, create) || q->create.open_flags & FUSE_OPEN_KILL_SUIDGID);
		break;
	case FUSE_INIT:
		if (HAS(n, init.flags) && q->init.major == 7 &&
		    q->init.flags & FUSE_HANDLE_KILLPRIV_V2)
			offered_by = q->h.unique;
		break;
	default:
		break;
	}
}

/* The place for the data of a write: DATA_MOST bytes, or NULL. */
static struct buf *data_room(void)
{
	struct workspace *w = workspace_get();

	if (!w || w->data.p)
		return w ? &w->data : NULL;
	w->data = spare_take(spare, DATA_MOST);
	if (w->data.cap > DATA_MOST)
		spare_give(spare, &w->data);
	if (w->data.p)
		return &w->data;
	if (buf_reserve(&w->data, DATA_MOST) < 0)
		return NULL;
	if (w->data_went)
		buf_populate(&w->data);
	return &w->data;
}

/*
 * What comes with a write goes to a buffer of its own, which a chunk can keep (dirty_write), and
 * where the kernel's pages lie on pages of ours; all else gets to its place behind the head.
 */
static ssize_t read_request(int fd, void *buf, size_t size, void *userdata)
{
	uint8_t *rest = (uint8_t *)buf + WRITE_HEAD;
	struct buf *room = size >= WRITE_HEAD + DATA_MOST ? data_room() : NULL;

	(void)userdata;
	assert(size >= WRITE_HEAD);
	data = NULL;
	size_t split = room ? DATA_MOST : 0;
	struct iovec v[] = {
		{buf, WRITE_HEAD},
		{room ? room->p : rest, split},
		{rest + split, size - WRITE_HEAD - split},
	};
	ssize_t n = readv(fd, v, 3);
	if (n <= 0)
		return n;
	size_t more = (size_t)n > WRITE_HEAD ? (size_t)n - WRITE_HEAD : 0;
	bool write = more && ((const struct request *)buf)->h.opcode == FUSE_WRITE;
	if (room && write && more <= DATA_MOST)
		data = room->p;
	else if (room && more)
		memcpy(rest, room->p, min_u64(more, DATA_MOST));
	look(buf, (size_t)n);
	return n;
}

/* The answer to INIT with one flag more. */
static ssize_t answer_init(int fd, struct iovec *iov)
{
	struct fuse_init_out out;
	struct iovec v[2] = {iov[0], {&out, iov[1].iov_len}};

	memcpy(&out, iov[1].iov_base, iov[1].iov_len);
	out.flags |= FUSE_HANDLE_KILLPRIV_V2;
	ours = true; /* before the first request that counts on it */
	ssize_t rc = writev(fd, v, 2);
	if (rc < 0)
		ours = false;
	return rc;
}

static ssize_t write_answer(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *h = iov[0].iov_base;

	(void)userdata;
	if (offered_by && h->unique == offered_by) {
		offered_by = 0;
		if (h->error == 0 && count == 2 && iov[1].iov_len <= sizeof(struct fuse_init_out) &&
		    iov[1].iov_len >= offsetof(struct fuse_init_out, max_background))
			return answer_init(fd, iov);
	}
	return writev(fd, iov, count);
}

/* Without it libfuse would copy what it can splice. */
static ssize_t splice_answer(int from, off_t *from_at, int to, off_t *to_at, size_t len,
			     unsigned flags, void *userdata)
{
	(void)userdata;
	return splice(from, from_at, to, to_at, len, flags);
}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
/* From 3.17 on it asks for this too, or its threads share one descriptor. */
static int clone_device(int master)
{
	uint32_t from = (uint32_t)master;

	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd >= 0 && ioctl(fd, FUSE_DEV_IOC_CLONE, &from) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int attach(struct fuse_session *se, struct fuse_custom_io *io)
{
	io->clone_fd = clone_device;
	return fuse_session_custom_io_317(se, io, sizeof *io, fuse_session_fd(se));
}
#else
static int attach(struct fuse_session *se, struct fuse_custom_io *io)
{
	return fuse_session_custom_io(se, io, fuse_session_fd(se));
}
#endif

int wire_attach(struct fuse_session *se, struct spare *buffers)
{
	struct fuse_custom_io io = {
		.writev = write_answer, .read = read_request, .splice_send = splice_answer};

	spare = buffers;
	return attach(se, &io);
}

const void *wire_data(const void *behind_head)
{
	return data ? data : behind_head;
}

bool wire_is_ours(void)
{
	return ours;
}

bool wire_take_kills(void)
{
	bool kills = ours && said != KEEPS;

	said = UNSAID;
	return kills;
}
