#include "fs/ops/push.h"

#include "base/clock.h"
#include "fs/file/open.h"
#include "fs/ops/notify.h"
#include "fs/ops/wire.h"
#include "fs/read/read.h"
#include "fs/stats.h"

#include <sched.h>

/* Values of fs.pushing: one block is pushed at a time. ENDED is for ever. */
enum pushing { PUSH_NONE, PUSH_ONE, PUSH_ENDED };

/* A push is done in steps of this many bytes, after each of which others go first (goes_on). */
#define STEP (64u << 10)

static int defer(struct fs *fs, struct push *p, const struct deferred *request)
{
	struct deferred *d = mem_zalloc(sizeof *d);

	if (!d)
		return -ENOMEM;
	*d = *request;
	d->killpriv = wire_take_killpriv(fs); /* known to this thread alone */
	d->next = p->waiting;
	p->waiting = d;
	return 1;
}

int push_enter(struct fs *fs, struct inode *n, const struct deferred *d)
{
	int rc = 0;

	pthread_mutex_lock(&n->lock);
	if (!n->push)
		n->entering++;
	else
		rc = d ? defer(fs, n->push, d) : -ESTALE;
	pthread_mutex_unlock(&n->lock);
	return rc;
}

void push_leave(struct inode *n)
{
	pthread_mutex_lock(&n->lock);
	n->entering--;
	pthread_mutex_unlock(&n->lock);
}

/* False: another block is being pushed. True: none will be until fs.pushing is PUSH_NONE again. */
static bool try_begin(struct fs *fs)
{
	int expected = PUSH_NONE;

	return atomic_compare_exchange_strong(&fs->pushing, &expected, PUSH_ONE);
}

/*
 * True: there are no writers, and no other program has changed the file since it was last opened.
 * Otherwise the kernel is about to be told that its pages are old (kernel.owner), and a page of
 * ours could come after that.
 */
static bool suits_inode_locked(const struct inode *n)
{
	const struct file *f = n->file;

	return f && !f->writable && !n->nwriters && !n->entering && n->busy == INODE_NOT_BUSY &&
	       !n->detached && n->kernel.owner == n->cache_owner && !f->sidecar.there;
}

bool push_begin(struct fs *fs, struct inode *n, const struct reply *answer, struct push *p)
{
	uint64_t len = answer->push.len;

	if (!len || len > REPLY_PUSH_MAX || !fs->guarded || !try_begin(fs))
		return false;
	pthread_mutex_lock(&n->lock);
	bool suits = suits_inode_locked(n);
	if (suits) {
		*p = (struct push){.inode = n, .file = n->file, .owner = n->cache_owner,
				   .at = answer->push.at, .len = len};
		n->push = p;
		n->nopen++;
	}
	pthread_mutex_unlock(&n->lock);
	if (suits)
		inode_get(fs->inodes, n);
	else
		atomic_store(&fs->pushing, PUSH_NONE);
	return suits;
}

/* Cuts the push to whole pages. The kernel accepts a partial page only at the end of a file. */
static void align(struct push *p)
{
	uint64_t page = mem_page_size(), end = p->at + p->len;
	uint64_t from = ceil_div(p->at, page) * page;

	if (end < file_size(p->file))
		end = end / page * page;
	p->at = from;
	p->len = end > from ? end - from : 0;
}

static int store(struct fs *fs, const struct push *p, uint64_t at, const struct reply *r)
{
	for (unsigned i = 0; i < r->pieces; i++) {
		struct view bytes = view_of(r->piece[i].iov_base, r->piece[i].iov_len);
		TRY(notify_store(fs, p->inode, at, bytes));
		at += bytes.n;
	}
	return 0;
}

/* Pushes `len` bytes from `at` on, if they can be read. `room` is empty before and after. */
static void push_step(struct fs *fs, const struct push *p, uint64_t at, uint64_t len,
		      struct reply *room)
{
	if (file_read_again(p->file, at, len, room) >= 0 && room->n == len &&
	    store(fs, p, at, room) == 0)
		stats_add(STATS_PUSHED_BYTES, len);
	reply_end(room, fs->cache);
}

/*
 * After a step: lets other threads use this core first. False: a request waits for the file, or it
 * no longer suits, since another program's lock file was found, or a new frame in its place.
 */
static bool goes_on(struct push *p)
{
	struct inode *n = p->inode;

	pthread_mutex_lock(&n->lock);
	bool suits = !p->waiting && n->cache_owner == p->owner && suits_inode_locked(n);
	pthread_mutex_unlock(&n->lock);
	return suits && sched_yield() == 0;
}

/*
 * Returns the requests that waited, oldest first. They count as entered, so that no push begins
 * before they are served.
 */
static struct deferred *leave_inode(struct fs *fs, struct push *p)
{
	struct inode *n = p->inode;
	struct deferred *oldest = NULL;

	pthread_mutex_lock(&n->lock);
	while (p->waiting) {
		struct deferred *d = p->waiting;
		p->waiting = d->next;
		d->next = oldest;
		oldest = d;
		n->entering++;
	}
	n->push = NULL;
	bool same = n->cache_owner == p->owner;
	pthread_mutex_unlock(&n->lock);
	/*
	 * At once: without n->push, this use would be mistaken for a writer's (has_only_readers).
	 */
	file_put(fs, n);
	if (!same)
		notify_changed(fs->notify, n, 0);
	return oldest;
}

static void serve(struct deferred *d)
{
	while (d) {
		struct deferred *next = d->next;
		wire_give_killpriv(d->killpriv);
		d->serve(d);
		mem_free(d);
		d = next;
	}
}

void push_run(struct fs *fs, struct push *p, struct reply *room)
{
	align(p);
	for (uint64_t done = 0; done < p->len && (!done || goes_on(p)); done += STEP)
		push_step(fs, p, p->at + done, min_u64(STEP, p->len - done), room);
	struct deferred *waited = leave_inode(fs, p);
	inode_put(fs->inodes, p->inode, 1);
	atomic_store(&fs->pushing, PUSH_NONE);
	serve(waited); /* like any other requests: another push need not wait for them */
}

#define LOOK_EVERY_NS CLOCK_MS

void push_end(struct fs *fs)
{
	int expected = PUSH_NONE;

	while (!atomic_compare_exchange_strong(&fs->pushing, &expected, PUSH_ENDED) &&
	       expected != PUSH_ENDED) {
		clock_sleep(LOOK_EVERY_NS);
		expected = PUSH_NONE;
	}
}
