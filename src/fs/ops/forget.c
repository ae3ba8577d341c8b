#include "fs/ops/forget.h"

#include "base/clock.h"
#include "fs/ops/ops.h"

#include <pthread.h>

#define BATCH 64
#define PAUSE_NS (CLOCK_SECOND / 1000) /* in which the kernel gets rid of a batch */
#define NONE_NS (CLOCK_SECOND / 10)    /* where there are directories and open files only */

struct forget {
	struct fs *fs;
	pthread_t thread;
	atomic_flag joined;
};

/*
 * The kernel drops its entry of that name, and the inode with it if nobody uses that. It may have
 * another file by that name, which it looks up again then.
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

static void *forget_main(void *arg)
{
	struct fs *fs = ((struct forget *)arg)->fs;
	struct old_name old[BATCH];

	while (inodes_await_crowd(fs->inodes)) {
		unsigned n = inodes_pick_old(fs->inodes, old, BATCH);
		for (unsigned i = 0; i < n; i++) {
			drop_old(fs, &old[i]);
			inode_put(fs->inodes, old[i].parent, 1);
		}
		clock_sleep(n ? PAUSE_NS : NONE_NS);
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
