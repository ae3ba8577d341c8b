#include "fs/notify.h"

#include "base/buf.h"
#include "fs/file.h"
#include "fs/ops.h"

#include <pthread.h>

#define PAGE 4096u

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

/*
 * With the writeback cache the kernel trusts its own size, but data that we put behind it counts.
 */
static int tell_size(struct fs *fs, const struct item *i)
{
	uint64_t at = (i->size - 1) / PAGE * PAGE;
	uint8_t data[PAGE];
	struct file *f;

	TRY(file_get(fs, i->inode, false, &f));
	ssize_t n = file_read_at(f, at, span_of(data, sizeof data));
	int rc = n < 0 ? (int)n : 0;
	if (n >= 0 && (uint64_t)n == i->size - at) {
		struct fuse_bufvec vec = FUSE_BUFVEC_INIT((size_t)n);
		vec.buf[0].mem = data;
		rc = fuse_lowlevel_notify_store(fs->session, ops_ino(fs, i->inode), (off_t)at, &vec,
						0);
	}
	file_put(fs, i->inode);
	return rc;
}

static void tell(struct fs *fs, struct item *i)
{
	(void)fuse_lowlevel_notify_inval_inode(fs->session, ops_ino(fs, i->inode), 0, 0);
	if (i->size && tell_size(fs, i) < 0) { /* it is being changed again: who reads that tells */
		pthread_mutex_lock(&i->inode->lock);
		i->inode->untold = true;
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
	if (rc < 0) {
		pthread_cond_destroy(&n->wake);
		pthread_mutex_destroy(&n->lock);
		mem_free(n);
		return rc;
	}
	*out = n;
	return 0;
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
	pthread_cond_destroy(&n->wake);
	pthread_mutex_destroy(&n->lock);
	mem_free(n);
}

void notify_changed(struct notify *n, struct inode *inode, uint64_t size)
{
	struct item *i = n ? mem_zalloc(sizeof *i) : NULL;
	if (!i)
		return; /* the kernel's pages are then as old as its next open */
	inode_get(n->fs->inodes, inode);
	i->inode = inode;
	i->size = size;
	pthread_mutex_lock(&n->lock);
	*n->last = i;
	n->last = &i->next;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}
