/* The content of open files: read, write, sync, allocate, copy. */
#include "fs/ops/ops.h"

#include "fs/dirty/flush.h"
#include "fs/file/alone.h"
#include "fs/file/copy.h"
#include "fs/file/loss.h"
#include "fs/file/sync.h"
#include "fs/file/write.h"
#include "fs/ops/push.h"
#include "fs/ops/wire.h"
#include "fs/process.h"
#include "fs/read/read.h"
#include "fs/stats.h"
#include "fs/workspace.h"

#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void read_plain(fuse_req_t req, const struct handle *h, size_t size, off_t off)
{
	struct fuse_bufvec buf = FUSE_BUFVEC_INIT(size);

	buf.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	buf.buf[0].fd = h->fd;
	buf.buf[0].pos = off;
	stats_add(STATS_PLAIN_READ_BYTES, size);
	fuse_reply_data(req, &buf, FUSE_BUF_SPLICE_MOVE);
}

static void log_read(struct fs *fs, struct inode *n, uint64_t at, int rc)
{
	char what[40];

	snprintf(what, sizeof what, "read: at byte %llu", (unsigned long long)at);
	ops_log(fs, n, what, rc);
}

/* The process that waits for a read. */
struct asker {
	fuse_req_t req;
	struct handle *h;
	uint32_t closes; /* before */
	bool ahead;      /* the kernel reads ahead; else only the page that is waited for */
};

/* True: the asker has been killed, and will exit once it has an answer. */
static bool is_killed(const struct asker *a)
{
	return process_bits(fuse_req_ctx(a->req)->pid, "SigPnd:") >> (SIGKILL - 1) & 1;
}

/*
 * True: the asker has closed a descriptor of the file, or has exited: in a read-only mount we are
 * not told of the former (op_flush). A process that we cannot see has pid 0, which for kill(2) is
 * our own process group.
 */
static bool has_left(const struct asker *a)
{
	return atomic_load(&a->h->closes) != a->closes ||
	       (kill(fuse_req_ctx(a->req)->pid, 0) < 0 && errno == ESRCH);
}

/*
 * True: nobody wants the answer any more. Where the kernel may request several pieces at once it
 * sends no INTERRUPT. A process with direct I/O then waits for all of them, even if killed. One
 * that reads through the page cache does not wait for what is read ahead, and may have left; if
 * another waits for that, the kernel requests it again, page by page.
 */
static bool is_gone(void *who)
{
	const struct asker *a = who;

	return fuse_req_interrupted(a->req) || is_killed(a) || (a->ahead && has_left(a)) ||
	       fuse_session_exited(ops_fs(a->req)->session);
}

static void answer_read(fuse_req_t req, const struct handle *h, int rc, uint64_t at,
			struct reply *r)
{
	if (rc < 0) {
		if (rc != -EINTR && rc != -EAGAIN) /* slow.h */
			log_read(ops_fs(req), h->inode, at, rc);
		fuse_reply_err(req, ops_errno(rc));
	} else if (r->pieces <= 1) { /* the iov form allocates */
		fuse_reply_buf(req, r->pieces ? r->piece[0].iov_base : NULL, r->n);
	} else {
		fuse_reply_iov(req, r->piece, (int)r->pieces);
	}
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs *fs = ops_fs(req);
	struct handle *h = ops_handle(fi);

	(void)ino;
	if (!h->file) {
		read_plain(req, h, size, off);
		return;
	}
	struct workspace *ws = workspace_get();
	if (!ws) {
		answer_read(req, h, -ENOMEM, (uint64_t)off, NULL);
		return;
	}
	struct reply *r = &ws->reply;
	bool direct = fi->flags & O_DIRECT, ahead = !direct && size > mem_page_size();
	struct asker asker = {
		.req = req, .h = h, .closes = atomic_load(&h->closes), .ahead = ahead};
	struct file_request q = {.at = (uint64_t)off, .len = size, .direct = direct,
				 .gone = is_gone, .who = &asker};
	int rc = file_read(h->file, &q, r);
	struct push push;
	bool pushes = rc >= 0 && push_begin(fs, h->inode, r, &push);
	answer_read(req, h, rc, q.at, r);
	reply_end(r, fs->cache);
	fs_warm_cache(fs); /* after the answer, as waking a worker takes a while */
	if (pushes)
		push_run(fs, &push, r);
}

/*
 * For writeback the kernel takes any answer but an error for a complete write: the rest would be
 * lost.
 */
static ssize_t write_plain(const struct handle *h, const struct file_data *d, enum file_source from)
{
	size_t done = 0, size = d->bytes.n;

	while (done < size) {
		ssize_t rc = pwrite(h->fd, d->bytes.p + done, size - done, (off_t)(d->at + done));
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc < 0)
			return done && from != FILE_FROM_WRITEBACK ? (ssize_t)done : -errno;
		done += (size_t)rc;
	}
	return (ssize_t)done;
}

/*
 * Logs an error, and remembers this outcome. That the disk is full is logged once, until a close or
 * an fsync works: a program that tries again and again, or whose children close their copies of its
 * descriptor, would fill the log.
 */
static void log_change(struct fs *fs, const struct handle *h, const char *what, int rc)
{
	int before = atomic_exchange(&h->file->told_rc, rc);

	if (rc < 0 && !(err_is_full(rc) && rc == before))
		ops_log(fs, h->inode, what, rc);
}

static ssize_t write_frame(struct fs *fs, const struct handle *h, const struct file_data *d,
			   enum file_source from)
{
	ssize_t rc = file_write(h->file, d, from);
	if (rc < 0)
		log_change(fs, h, "write", (int)rc);
	return rc;
}

/* A write that will be refused for its offset changes nothing, so it removes no privileges. */
static ssize_t write_handle(fuse_req_t req, const struct handle *h, const struct file_data *d,
			    enum file_source from)
{
	if (!h->file || from == FILE_FROM_WRITEBACK ||
	    file_can_reach(h->file, d->at, d->bytes.n))
		TRY(ops_killpriv_write(req, h->inode));
	if (h->file)
		return write_frame(ops_fs(req), h, d, from);
	ssize_t rc = write_plain(h, d, from);
	stats_add(STATS_PLAIN_WRITE_BYTES, rc > 0 ? (uint64_t)rc : 0);
	return rc;
}

/*
 * The result of a sync that returned rc, as a negative errno: its error, which is logged here, or a
 * loss of data of which this handle has not been told yet.
 */
static int sync_done(struct fs *fs, struct handle *h, const char *what, int rc)
{
	log_change(fs, h, what, rc);
	int lost = file_take_loss(h->file, &h->losses); /* logged when it happened */
	return -ops_errno(rc < 0 ? rc : lost);
}

/* So that a change by this handle is durable before it is answered. */
static int sync_change(fuse_req_t req, struct handle *h, const char *what)
{
	if (!h->file)
		return fdatasync(h->fd) < 0 ? -errno : 0;
	err_clear();
	return sync_done(ops_fs(req), h, what, file_sync_data(h->file));
}

/*
 * True: by O_SYNC, O_DSYNC, RWF_DSYNC or -o sync, this write has to be durable. After direct writes
 * that the application does not wait for (io_submit, io_uring), the kernel sends no FSYNC.
 */
static bool is_synchronous(const struct handle *h, const struct fuse_file_info *fi)
{
	return (h->synchronous || fi->flags & O_DSYNC) && !fi->writepage;
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	      struct fuse_file_info *fi)
{
	struct handle *h = ops_handle(fi);
	struct buf *own = wire_data();
	const void *bytes = own ? (const void *)own->p : buf;
	struct file_data d = {.at = (uint64_t)off, .bytes = view_of(bytes, size), .own = own};

	(void)ino;
	ssize_t rc = write_handle(req, h, &d,
				  fi->writepage ? FILE_FROM_WRITEBACK : FILE_FROM_CALLER);
	if (rc > 0 && is_synchronous(h, fi)) {
		int synced = sync_change(req, h, "write");
		rc = synced < 0 ? synced : rc;
	}
	uint64_t end = rc > 0 ? d.at + (uint64_t)rc : 0;
	struct file *early = fi->writepage && flush_early_suits(end) ? h->file : NULL;
	if (early) /* the handle may be closed once this is answered */
		uncommitted_pin(early);
	if (rc < 0)
		fuse_reply_err(req, ops_errno((int)rc));
	else
		fuse_reply_write(req, (size_t)rc);
	if (early) {
		flush_early(early, end);
		uncommitted_unpin(early);
	}
}

/* The backing file system reports its errors for a plain file when a descriptor is closed. */
static int flush_plain(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	int rc = copy < 0 || close(copy) < 0 ? -errno : 0;

	ops_tell_limit(rc);
	return rc;
}

/*
 * Each close(2): the last chance to tell the application of errors. In a read-only mount there are
 * none: after ENOSYS the kernel no longer sends FLUSH.
 */
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = ops_handle(fi);
	int rc = 0;

	(void)ino;
	if (ops_fs(req)->opt.read_only) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	err_clear();
	atomic_fetch_add(&h->closes, 1);
	if (h->file && h->writable)
		rc = sync_done(ops_fs(req), h, "close", file_flush(h->file));
	else if (!h->file)
		rc = flush_plain(h->fd);
	fuse_reply_err(req, -rc);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct handle *h = ops_handle(fi);
	int rc;

	(void)ino;
	err_clear();
	if (h->file) {
		file_accept_refused(h->file, &h->refusals);
		rc = sync_done(ops_fs(req), h, "fsync", file_fsync(h->file, datasync));
	} else {
		rc = (datasync ? fdatasync(h->fd) : fsync(h->fd)) < 0 ? -errno : 0;
	}
	fuse_reply_err(req, -rc);
}

/* Call before anything is changed. For a plain file, its own file system decides. */
static int judge_fallocate(struct file *f, int mode, uint64_t off, uint64_t len)
{
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	bool keeps = mode & FALLOC_FL_KEEP_SIZE;
	uint64_t end;

	if (mode & ~known || (mode & FALLOC_FL_PUNCH_HOLE && !keeps))
		return -EOPNOTSUPP;
	if (add_overflows(off, len, &end))
		return -EFBIG;
	return keeps || file_can_reach(f, off, len) ? 0 : -EFBIG;
}

static int change_frame(struct file *f, int mode, uint64_t off, uint64_t len)
{
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		TRY(file_zero(f, off, len));
	/* No space is reserved: the compressed size is not known. Only the length changes. */
	return mode & FALLOC_FL_KEEP_SIZE ? 0 : file_extend(f, off + len);
}

static int fallocate_frame(fuse_req_t req, struct handle *h, int mode, uint64_t off, uint64_t len)
{
	TRY(judge_fallocate(h->file, mode, off, len));
	TRY(ops_killpriv_change(req, h->inode));
	int rc = change_frame(h->file, mode, off, len);
	if (rc >= 0) /* a plain file was opened with the same flags */
		return h->synchronous ? sync_change(req, h, "fallocate") : 0;
	log_change(ops_fs(req), h, "fallocate", rc);
	return -ops_errno(rc);
}

static int fallocate_plain(fuse_req_t req, const struct handle *h, int mode, off_t off, off_t len)
{
	TRY(ops_killpriv_change(req, h->inode));
	return fallocate(h->fd, mode, off, len) < 0 ? -errno : 0;
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
		  struct fuse_file_info *fi)
{
	struct handle *h = ops_handle(fi);

	(void)ino;
	int rc = h->file ? fallocate_frame(req, h, mode, (uint64_t)off, (uint64_t)len)
			 : fallocate_plain(req, h, mode, off, len);
	fuse_reply_err(req, -rc);
}

/* Both are frames, or neither is. */
static ssize_t copy(fuse_req_t req, const struct handle *from, struct handle *to,
		    struct file_copy *c)
{
	off_t from_at = (off_t)c->from_at, to_at = (off_t)c->to_at;

	TRY(ops_killpriv_change(req, to->inode));
	if (!to->file) {
		ssize_t n = copy_file_range(from->fd, &from_at, to->fd, &to_at,
					    (size_t)c->len, 0);
		return n < 0 ? -errno : n;
	}
	ssize_t rc = file_copy(c);
	if (rc > 0 && to->synchronous)
		TRY(sync_change(req, to, "copy_file_range"));
	if (rc >= 0)
		return rc;
	log_change(ops_fs(req), c->unread ? from : to, "copy_file_range", (int)rc);
	return -ops_errno((int)rc);
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
			struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
			struct fuse_file_info *fi_out, size_t len, int flags)
{
	const struct handle *from = ops_handle(fi_in);
	struct handle *to = ops_handle(fi_out);

	(void)ino_in, (void)ino_out;
	/*
	 * Between a frame and a plain file the kernel shall read and write; an array may take long.
	 */
	if (flags || !from->file != !to->file || inode_kind(from->inode) == NODE_ARRAY) {
		fuse_reply_err(req, flags ? EINVAL : EOPNOTSUPP);
		return;
	}
	struct file_copy c = {.from = from->file, .from_at = (uint64_t)off_in,
			      .to = to->file, .to_at = (uint64_t)off_out, .len = len};
	ssize_t rc = copy(req, from, to, &c);
	if (rc < 0)
		fuse_reply_err(req, (int)-rc);
	else
		fuse_reply_write(req, (size_t)rc);
}
