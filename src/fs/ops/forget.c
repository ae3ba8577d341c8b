#include "fs/ops/forget.h"

#include "base/clock.h"
#include "fs/ops/ops.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/uio.h>

#define BATCH 64
#define PAUSE_NS (CLOCK_SECOND / 1000) /* in which the kernel gets rid of a batch */
#define NONE_NS (CLOCK_SECOND / 10)    /* where all that is left is in use, or directories */

struct forget {
	struct fs *fs;
	pthread_t thread;
	atomic_flag joined;
};

/* Linux 6.18, FUSE 7.45: older headers lack it. Inode numbers follow. */
#define NOTIFY_PRUNE 9
struct prune {
	uint32_t count, padding;
	uint64_t spare;
	uint64_t ino[BATCH];
};

/*
 * The kernel drops its entries of these files, and the inodes with them, but for those that
 * somebody uses or has mounted something on. False: it is too old for that.
 */
static bool prune(struct fs *fs, const struct old_name *o, unsigned n)
{
	struct prune what = {.count = n};
	struct fuse_out_header head = {.error = NOTIFY_PRUNE};
	struct iovec v[2] = {{&head, sizeof head},
			     {&what, offsetof(struct prune, ino) + n * sizeof *what.ino}};

	head.len = (uint32_t)(v[0].iov_len + v[1].iov_len);
	for (unsigned i = 0; i < n; i++)
		what.ino[i] = ops_ino(fs, o[i].inode);
	return writev(fuse_session_fd(fs->session), v, 2) >= 0 || errno != EINVAL;
}

/*
 * The kernel drops its entry of that name, and whatever is mounted on it. It may have another file
 * by that name, which it looks up again then.
 */
static int drop(struct fs *fs, const struct inode *parent, const char *name)
{
	return fuse_lowlevel_notify_inval_entry(fs->session, ops_ino(fs, parent), name,
						strlen(name));
}

static void drop_old(struct fs *fs, const struct old_name *o)
{
	char shown[NAME_MAX + 1];

	if (!names_claim(o->kind, o->backing, shown) || drop(fs, o->parent, shown) < 0)
		(void)drop(fs, o->parent, o->backing); /* as it is shown if the other is taken */
}

/* False: it is not to be done by dropping. */
static bool forget_some(struct fs *fs, const struct old_name *o, unsigned n)
{
	if (prune(fs, o, n))
		return true;
	for (unsigned i = 0; i < n && fs->opt.inodes_by_all_means; i++)
		drop_old(fs, &o[i]);
	return fs->opt.inodes_by_all_means;
}

static void *forget_main(void *arg)
{
	struct fs *fs = ((struct forget *)arg)->fs;
	struct old_name old[BATCH];
	uint64_t before = UINT64_MAX;
	bool able = true;

	while (able && inodes_await_crowd(fs->inodes)) {
		unsigned n = inodes_pick_old(fs->inodes, old, BATCH);
		able = forget_some(fs, old, n);
		for (unsigned i = 0; i < n; i++)
			inode_put(fs->inodes, old[i].parent, 1);
		uint64_t now = inodes_count(fs->inodes);
		clock_sleep(n && now < before ? PAUSE_NS : NONE_NS);
		before = now;
	}
	return NULL;
}

int forget_start(struct forget **out, struct fs *fs)
{
	struct forget *f = mem_zalloc(sizeof *f);
	if (!f)
		return -ENOMEM;
	f->fs = fs;
	int rc = -pthread_create(&f->thread, NULL, forget_main, f);
	if (rc < 0)
		mem_free(f);
	else
		*out = f;
	return rc;
}

void forget_stop(struct forget *f)
{
	if (!f)
		return;
	inodes_end_crowd(f->fs->inodes);
	if (!atomic_flag_test_and_set(&f->joined))
		pthread_join(f->thread, NULL);
}

void forget_close(struct forget *f)
{
	forget_stop(f);
	mem_free(f);
}
