#include "fs/ops/notify.h"

#include "base/buf.h"
#include "fs/file/open.h"
#include "fs/ops/ops.h"
#include "fs/read/read.h"

#include <pthread.h>

struct item {
	struct item *next;
	struct inode *inode; /* a reference */
	uint64_t size;
};

struct notify {
	struct fs *fs;
	pthread_t thread;
	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t wake;
	struct item *first, **last;
	bool stop, joined;
};

int notify_store(struct fs *fs, const struct inode *n, uint64_t at, struct view bytes)
{
	struct fuse_bufvec data = FUSE_BUFVEC_INIT(bytes.n);

	data.buf[0].mem = (void *)(uintptr_t)bytes.p;
	return fuse_lowlevel_notify_store(fs->session, ops_ino(fs, n), (off_t)at, &data,
					  FUSE_BUF_NO_SPLICE /* saves a copy */);
}

/*
 * With the writeback cache the kernel trusts its own size of a file, unless data is stored beyond
 * it. So it is sent the file's last page.
 */
static int tell_size(struct fs *fs, const struct item *i)
{
	size_t page = mem_page_size();
	uint64_t at = (i->size - 1) / page * page;
	struct buf data = {0};
	struct file *f;

	TRY(buf_reserve(&data, page));
	int rc = file_get(fs, i->inode, O_RDONLY, &f);
	if (rc >= 0) {
		ssize_t n = file_read_at(f, at, span_of(data.p, page));
		rc = n < 0 ? (int)n : 0;
		if (n >= 0 && (uint64_t)n == i->size - at)
			rc = notify_store(fs, i->inode, at, view_of(data.p, (size_t)n));
		file_put(fs, i->inode);
	}
	buf_free(&data);
	return rc;
}

static void tell(struct fs *fs, struct item *i)
{
	(void)fuse_lowlevel_notify_inval_inode(fs->session, ops_ino(fs, i->inode), 0, 0);
	if (i->size && tell_size(fs, i) < 0) { /* the next reload tries again */
		pthread_mutex_lock(&i->inode->lock);
		i->inode->kernel.untold = true;
		pthread_mutex_unlock(&i->inode->lock);
	}
}

static void free_item(struct fs *fs, struct item *i)
{
	inode_put(fs->inodes, i->inode, 1);
	mem_free(i);
}

static void *notify_main(void *arg)
{
	struct notify *n = arg;

	pthread_mutex_lock(&n->lock);
	for (;;) {
		while (!n->first && !n->stop)
			pthread_cond_wait(&n->wake, &n->lock);
		if (n->stop)
			break;
		struct item *i = n->first;
		n->first = i->next;
		if (!n->first)
			n->last = &n->first;
		pthread_mutex_unlock(&n->lock);
		tell(n->fs, i);
		free_item(n->fs, i);
		pthread_mutex_lock(&n->lock);
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

static void notify_free(struct notify *n)
{
	pthread_cond_destroy(&n->wake);
	pthread_mutex_destroy(&n->lock);
	mem_free(n);
}

int notify_start(struct notify **out, struct fs *fs)
{
	struct notify *n = mem_zalloc(sizeof *n);
	if (!n)
		return -ENOMEM;
	n->fs = fs;
	n->last = &n->first;
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->wake, NULL);
	int rc = -pthread_create(&n->thread, NULL, notify_main, n);
	if (rc < 0)
		notify_free(n);
	else
		*out = n;
	return rc;
}

void notify_stop(struct notify *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	bool joined = n->joined;
	n->stop = n->joined = true;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
	if (!joined)
		pthread_join(n->thread, NULL);
}

void notify_close(struct notify *n)
{
	if (!n)
		return;
	notify_stop(n);
	while (n->first) {
		struct item *i = n->first;
		n->first = i->next;
		free_item(n->fs, i);
	}
	notify_free(n);
}

void notify_changed(struct notify *n, struct inode *inode, uint64_t size)
{
	struct item *i = n ? mem_zalloc(sizeof *i) : NULL;
	if (!i)
		return; /* out of memory: the kernel keeps its old pages until the next open */
	inode_get(n->fs->inodes, inode);
	i->inode = inode;
	i->size = size;
	pthread_mutex_lock(&n->lock);
	*n->last = i;
	n->last = &i->next;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}
