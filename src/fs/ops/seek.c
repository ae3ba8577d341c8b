#include "fs/ops/seek.h"

#include "fs/ops/ops.h"
#include "fs/read/read.h"

#include <unistd.h>

/* A request for the next data or hole, answered by seek_in_turn. */
struct seek {
	struct seek *next;
	fuse_req_t req;
	struct handle *h;
	fuse_ino_t ino;
	uint64_t off;
	int whence;
};

/* Makes the kernel send the file's dirty pages. */
static void make_kernel_send(struct fs *fs, fuse_ino_t ino)
{
	pthread_mutex_lock(&fs->seeks.sending);
	if (!fs->seeks.ended)
		(void)fuse_lowlevel_notify_inval_inode(fs->session, ino, 0, 0);
	pthread_mutex_unlock(&fs->seeks.sending);
}

void seek_queue_init(struct seek_queue *q)
{
	*q = (struct seek_queue){.lock = PTHREAD_MUTEX_INITIALIZER,
				 .sending = PTHREAD_MUTEX_INITIALIZER};
}

void seek_queue_end(struct seek_queue *q)
{
	q->ended = true; /* first, so that this waits for one call at most */
	pthread_mutex_lock(&q->sending);
	pthread_mutex_unlock(&q->sending);
}

static bool has_writers(struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	bool writers = n->nwriters > 0;
	pthread_mutex_unlock(&n->lock);
	return writers;
}

static off_t find(const struct seek *s)
{
	if (s->h->file)
		return file_seek(s->h->file, s->off, s->whence);
	off_t found = lseek(s->h->fd, (off_t)s->off, s->whence);
	return found < 0 ? -errno : found;
}

static void answer_seek(struct seek *s)
{
	struct fs *fs = ops_fs(s->req);

	if (has_writers(s->h->inode))
		make_kernel_send(fs, s->ino);
	off_t found = find(s);
	if (found < 0)
		fuse_reply_err(s->req, (int)-found);
	else
		fuse_reply_lseek(s->req, found);
	mem_free(s);
}

static void seek_in_turn(struct seek_queue *q, struct seek *s)
{
	pthread_mutex_lock(&q->lock);
	s->next = q->first;
	q->first = s;
	bool mine = !q->busy;
	q->busy = true;
	while (mine && q->first) {
		struct seek *first = q->first;
		q->first = first->next;
		pthread_mutex_unlock(&q->lock);
		answer_seek(first);
		pthread_mutex_lock(&q->lock);
	}
	if (mine)
		q->busy = false;
	pthread_mutex_unlock(&q->lock);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	struct handle *h = ops_handle(fi);

	struct seek *s = mem_zalloc(sizeof *s);
	if (!s) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	*s = (struct seek){.req = req, .h = h, .ino = ino, .off = (uint64_t)off, .whence = whence};
	if (h->file || has_writers(h->inode))
		seek_in_turn(&ops_fs(req)->seeks, s);
	else /* a plain file, which may be on a network: other requests need not wait for it */
		answer_seek(s);
}
