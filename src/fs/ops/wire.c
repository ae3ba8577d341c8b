#include "fs/ops/wire.h"

#include "fs/dirty/spare.h"
#include "fs/ops/ops.h"
#include "fs/workspace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * What is known of the request that this thread has read last. libfuse gives its callbacks no way
 * from a request to what was read, but reads and serves each request in one thread.
 */
static _Thread_local struct {
	enum { KILLPRIV_UNKNOWN, KILLPRIV_NO, KILLPRIV_YES } killpriv;
	struct buf *data; /* of a WRITE; NULL: after its header */
	bool had_buffer;  /* one was allocated before: a chunk has taken that over since */
} current;

static void note_killpriv(bool yes)
{
	current.killpriv = yes ? KILLPRIV_YES : KILLPRIV_NO;
}

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 14)

int wire_attach(struct fs *fs)
{
	(void)fs;
	return -ENOTSUP;
}

#else

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

/* The longest write that libfuse lets the kernel send; a longer one stays where libfuse put it. */
#define DATA_MOST (1u << 20)
#define WRITE_HEAD (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

#define HAS(n, part) ((n) >= offsetof(struct request, part) + sizeof(((struct request *)0)->part))

/* A truncated part counts as one with the flag. */
#define NOTE(part, flags, kill) note_killpriv(!HAS(n, part) || q->part.flags & (kill))

/* Inspects the first n bytes of a request. Malformed ones are left to libfuse to refuse. */
static void look(struct wire *w, const struct request *q, size_t n)
{
	current.killpriv = KILLPRIV_UNKNOWN;
	if (!HAS(n, h))
		return;
	switch (q->h.opcode) {
	case FUSE_WRITE: NOTE(write, write_flags, FUSE_WRITE_KILL_SUIDGID); break;
	case FUSE_SETATTR: NOTE(setattr, valid, FATTR_KILL_SUIDGID); break;
	case FUSE_OPEN: NOTE(open, open_flags, FUSE_OPEN_KILL_SUIDGID); break;
	case FUSE_CREATE: NOTE(create, open_flags, FUSE_OPEN_KILL_SUIDGID); break;
	case FUSE_INIT:
		if (HAS(n, init.flags) && q->init.major == 7 &&
		    q->init.flags & FUSE_HANDLE_KILLPRIV_V2)
			w->init = q->h.unique;
		break;
	default:
		break;
	}
}

/* The thread's buffer for the data of a write, DATA_MOST bytes; NULL without memory. */
static struct buf *data_buffer(struct spare *spare)
{
	struct workspace *w = workspace_get();

	if (!w || w->data.p)
		return w ? &w->data : NULL;
	w->data = spare_take(spare, DATA_MOST);
	if (w->data.cap > DATA_MOST)
		spare_give(spare, &w->data);
	if (!w->data.p && buf_reserve(&w->data, DATA_MOST) == 0 && current.had_buffer)
		(void)mem_populate(w->data.p, w->data.cap); /* chunks come one after another */
	current.had_buffer = true;
	return w->data.p ? &w->data : NULL;
}

/*
 * The data of a write goes to a separate buffer, which a chunk may take over (dirty_write), aligned
 * to pages as in the kernel. Everything else ends up in its usual place after the header.
 */
static ssize_t read_request(int fd, void *buf, size_t size, void *userdata)
{
	struct fs *fs = userdata;
	uint8_t *rest = (uint8_t *)buf + WRITE_HEAD;
	struct buf *room = size >= WRITE_HEAD + DATA_MOST ? data_buffer(fs->spare) : NULL;

	assert(size >= WRITE_HEAD);
	current.data = NULL;
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
	if (room && write && more <= DATA_MOST) {
		room->n = more;
		current.data = room;
	} else if (room && more) {
		memcpy(rest, room->p, min_u64(more, DATA_MOST));
	}
	look(&fs->wire, buf, (size_t)n);
	return n;
}

/* Sends the answer to INIT with one more flag. */
static ssize_t answer_init(struct wire *w, int fd, struct iovec *iov)
{
	struct fuse_init_out out;
	struct iovec v[2] = {iov[0], {&out, iov[1].iov_len}};

	memcpy(&out, iov[1].iov_base, iov[1].iov_len);
	out.flags |= FUSE_HANDLE_KILLPRIV_V2;
	w->has_killpriv = true; /* before the first request that counts on it */
	ssize_t rc = writev(fd, v, 2);
	if (rc < 0)
		w->has_killpriv = false;
	return rc;
}

static ssize_t write_answer(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *h = iov[0].iov_base;
	struct wire *w = &((struct fs *)userdata)->wire;

	if (w->init && h->unique == w->init) {
		w->init = 0;
		if (h->error == 0 && count == 2 && iov[1].iov_len <= sizeof(struct fuse_init_out) &&
		    iov[1].iov_len >= offsetof(struct fuse_init_out, max_background))
			return answer_init(w, fd, iov);
	}
	return writev(fd, iov, count);
}

/* Without this function libfuse would copy instead of splicing. */
static ssize_t splice_answer(int from, off_t *from_at, int to, off_t *to_at, size_t len,
			     unsigned flags, void *userdata)
{
	(void)userdata;
	return splice(from, from_at, to, to_at, len, flags);
}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
/* From 3.17 on libfuse asks for this one too; without it all threads would share a descriptor. */
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
#endif

int wire_attach(struct fs *fs)
{
	int fd = fuse_session_fd(fs->session);
	struct fuse_custom_io io = {
		.writev = write_answer, .read = read_request, .splice_send = splice_answer};

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
	io.clone_fd = clone_device;
	return fuse_session_custom_io_317(fs->session, &io, sizeof io, fd);
#else
	return fuse_session_custom_io(fs->session, &io, fd);
#endif
}

#endif

struct buf *wire_data(void)
{
	return current.data;
}

bool wire_has_killpriv(const struct fs *fs)
{
	return fs->wire.has_killpriv;
}

bool wire_take_killpriv(const struct fs *fs)
{
	bool yes = fs->wire.has_killpriv && current.killpriv != KILLPRIV_NO;

	current.killpriv = KILLPRIV_UNKNOWN;
	return yes;
}

void wire_give_killpriv(bool yes)
{
	note_killpriv(yes);
}
