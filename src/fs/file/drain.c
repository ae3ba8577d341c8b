#include "fs/file/drain.h"

#include "fs/dirty/flush.h"
#include "fs/file/commit.h"

#include <assert.h>
#include <limits.h>

static unsigned count_dirty(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	unsigned n = f->dirty.dirty.count;
	pthread_rwlock_unlock(&f->lock);
	return n;
}

/* The progress of the batches. */
struct batches {
	unsigned most;    /* chunks in the next batch                             */
	unsigned waiting; /* chunks that are still DIRTY                          */
	unsigned stuck;   /* `waiting` when room was last made inside the file    */
};

/*
 * Plans the next batch, after one in which `landed` chunks have been stored. On a full disk it has
 * at most twice as many chunks as found room in this one: sending all of them each time would
 * encode the same chunks over and over for the few that find room, in time quadratic in the size of
 * the file.
 *
 * True: the disk was full, but another batch is worth a try, since room was made inside the file,
 * or chunks that have not been tried may be small enough. False once no chunk can be stored that
 * way.
 */
static bool plan_batch(struct file *f, struct batches *b, int rc, unsigned landed)
{
	bool full = err_is_full(rc), all = b->most == FLUSH_ALL;

	if (full || !all)
		b->most = landed ? 2 * landed : 1;
	if (!full)
		return false;
	if (b->waiting < b->stuck && file_make_room(f) == 0) {
		b->stuck = b->waiting;
		return true;
	}
	if (b->waiting == b->stuck && !all) {
		b->most = FLUSH_ALL; /* these are too large for what is free, others may fit */
		return true;
	}
	return false;
}

int file_drain(struct file *f)
{
	struct batches b = {.most = FLUSH_ALL, .stuck = UINT_MAX};

	IGNORE(flush_wait(f)); /* what failed before is DIRTY again and is retried now */
	b.waiting = count_dirty(f);
	for (;;) {
		unsigned before = b.waiting;
		bool flushing = flush_only(f) || flush_submit_batch(f, b.most) > 0;
		int rc = flush_wait(f);
		b.waiting = count_dirty(f);
		unsigned landed = before > b.waiting ? before - b.waiting : 0;
		if (plan_batch(f, &b, rc, landed))
			continue;
		TRY(rc);
		if (!flushing) {
			assert(!b.waiting); /* while anything is DIRTY, each batch sends some */
			return 0;
		}
		if (b.waiting && f->wants_commit)
			TRY(file_commit_part_gated(f));
	}
}
