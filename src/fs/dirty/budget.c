#include "fs/dirty/budget.h"

#include "base/buf.h"
#include "base/container.h"
#include "fs/dirty/flush.h"
#include "fs/dirty/line.h"
#include "fs/file/commit.h"
#include "fs/fs.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>

/*
 * What the buffers of workers may take beyond the maximum. README promises that everything except
 * dirty data and cache stays within 64 MiB.
 */
#define BUFFERS_BEYOND (12u << 20)

/*
 * A caller with up to SMALL bytes does not wait behind others, up to SMALL_BEYOND bytes beyond the
 * maximum. But after PASS_MOST of these a waiter is admitted first.
 */
#define SMALL (64u << 10)
#define SMALL_BEYOND(max) min_u64((max) / 16, 4u << 20)
#define PASS_MOST 64

struct budget {
	pthread_mutex_t lock;
	pthread_cond_t moved;         /* something was freed, or has landed */
	uint64_t max, cache;
	unsigned workers;
	struct uncommitted *files;    /* which can be flushed; fixed, as is all above */
	int64_t used;                 /* all below under lock */
	struct line line;             /* in budget_enter */
	unsigned passed;              /* small callers since the line moved */
	unsigned entered;             /* writers between budget_enter and budget_leave */
	unsigned buffering;           /* workers that have their buffers */
	int64_t tables;               /* bytes of these workers' tables */
	struct fair_queue buffers;    /* waiting for theirs */
	unsigned in_flight;           /* chunks with the workers */
	unsigned landed;              /* chunks that no longer take memory */
	unsigned failures;            /* of chunks, and the latest one's error */
	int last_rc;
	bool gives_up;                /* see budget_gives_up */
	unsigned level;               /* see budget_level */
};

int budget_open(struct budget **out, struct fs *fs)
{
	struct budget *b = mem_zalloc(sizeof *b);
	if (!b)
		return -ENOMEM;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->moved, NULL);
	b->max = fs->opt.dirty_max;
	b->cache = fs->opt.cache;
	b->workers = (unsigned)fs->opt.workers;
	b->files = &fs->uncommitted;
	line_init(&b->line, fs, &b->lock);
	b->level = 1;
	*out = b;
	return 0;
}

void budget_close(struct budget *b)
{
	if (!b)
		return;
	assert(!b->in_flight);
	pthread_cond_destroy(&b->moved);
	pthread_mutex_destroy(&b->lock);
	mem_free(b);
}

/*
 * True: the error concerns only this file, or files of its owner: another program's lock, or what
 * it has written; a quota; the longest that a file may be.
 */
static bool is_held_back(int rc)
{
	return rc == -EAGAIN || rc == -ESTALE || rc == -EDQUOT || rc == -EFBIG;
}

/*
 * True: what has failed for one file fails for all. A full disk is full for all files, but EIO may
 * concern one of them.
 */
static bool concerns_all(int rc)
{
	return rc != -EIO && !is_held_back(rc);
}

/*
 * Hands a part of one file to the workers, releasing the lock meanwhile. Only files that had no
 * turn since `ticket` are considered. False: nothing could be started.
 */
static bool flush_some(struct budget *b, uint64_t ticket)
{
	bool started = false;
	struct file *f;

	while (!started && (f = uncommitted_pin_oldest(b->files, ticket))) {
		/* one chunk tells whether the lock is free by now */
		unsigned most = is_held_back(f->budget.rc) ? 1 : FLUSH_ALL;
		pthread_mutex_unlock(&b->lock);
		/* a lock that another program holds is for the file's own writers to wait for */
		if (f->wants_commit && !f->sidecar.there)
			/* on failure the file grows; its writer will be told */
			IGNORE(file_commit_part(f));
		started = flush_submit_batch(f, most) > 0;
		pthread_mutex_lock(&b->lock);
		uncommitted_unpin(f);
	}
	return started;
}

/*
 * Under the lock, when no file could free any memory. True: try once more. If the disk fails to
 * read what lies below one file's changes, that is no reason to keep other files from being
 * written: then those changes are lost.
 */
static bool begin_giving_up(struct budget *b)
{
	bool first = b->last_rc == -EIO && !b->gives_up;

	b->gives_up |= first;
	return first;
}

/*
 * Under the lock, in the same situation. The error of the last flush, if a writer of f has to fail
 * with it; else 0. An error that concerns a single file counts for that file's writers only. But a
 * quota or a limit may apply to all files, each of which would add some bytes: at twice the maximum
 * it counts for all.
 */
static int own_failure(const struct budget *b, struct file *f)
{
	bool far = err_is_full(b->last_rc) && b->used > 2 * (int64_t)b->max;
	int rc = is_held_back(b->last_rc) && !far ? f->budget.rc : b->last_rc;
	f->budget.rc = 0; /* reported once: next time its cause may be gone */
	return rc;
}

/* A round of flushes, in which each file has one turn. */
struct round {
	uint64_t ticket; /* of files that have not had it yet */
	unsigned landed; /* b->landed when it began           */
};

/* Under the lock. */
static struct round begin_round(struct budget *b)
{
	return (struct round){.ticket = uncommitted_ticket(b->files), .landed = b->landed};
}

/* The result for a writer that is admitted although nothing can be freed. */
#define BEYOND 1

/*
 * Under the lock, when each file has had its turn, and nothing is in flight. 0: another round, *r,
 * may free memory. BEYOND: no other writer is entered, so that this is one writer's bytes at a
 * time. Otherwise the error with which a writer of f fails. `failed`: chunks have failed to land
 * since the writer began to wait.
 */
static int end_round(struct budget *b, struct round *r, bool failed, struct file *f)
{
	bool in_vain = b->landed == r->landed && !(failed && begin_giving_up(b));

	if (in_vain && failed)
		TRY(own_failure(b, f));
	if (in_vain && !b->entered)
		return BEYOND;
	if (in_vain)
		pthread_cond_wait(&b->moved, &b->lock);
	*r = begin_round(b);
	return 0;
}

/*
 * Under the lock, for the first waiter: waits until no more than the maximum is in use, and flushes
 * files if no other thread does. `failures`: b->failures when it began to wait. 0 or BEYOND: it is
 * admitted.
 */
static int free_memory(struct budget *b, unsigned failures, struct file *f)
{
	struct round r = begin_round(b);
	int rc = 0;

	while (rc == 0 && b->used > (int64_t)b->max) {
		bool failed = b->failures != failures;
		if (b->in_flight)
			pthread_cond_wait(&b->moved, &b->lock);
		else if (failed && concerns_all(b->last_rc))
			rc = b->last_rc;
		else if (!flush_some(b, r.ticket))
			rc = end_round(b, &r, failed, f);
	}
	return rc;
}

/* Under the lock. True: the caller need not wait, neither for memory nor behind those that do. */
static bool passes(struct budget *b, size_t data)
{
	if (line_is_empty(&b->line))
		return b->used <= (int64_t)b->max;
	if (data > SMALL || b->passed == PASS_MOST ||
	    b->used > (int64_t)(b->max + SMALL_BEYOND(b->max)))
		return false;
	b->passed++;
	return true;
}

static void admit(struct budget *b, uint64_t bytes)
{
	b->used += (int64_t)bytes;
	b->entered++;
}

/* Under the lock. */
static int wait_in_line(struct budget *b, uint64_t bytes, size_t data, struct file *f)
{
	unsigned failures = b->failures;
	struct line_place place;

	line_join(&b->line, &place, &f->budget.in_line, data);
	int rc = free_memory(b, failures, f);
	b->gives_up = false;
	b->passed = 0;
	if (rc >= 0)
		admit(b, bytes);
	line_leave(&b->line, &place);
	return rc < 0 ? rc : 0;
}

int budget_enter(struct budget *b, uint64_t bytes, size_t data, struct file *f)
{
	int rc = 0;

	pthread_mutex_lock(&b->lock);
	if (passes(b, data))
		admit(b, bytes);
	else
		rc = wait_in_line(b, bytes, data, f);
	pthread_mutex_unlock(&b->lock);
	return rc;
}

void budget_leave(struct budget *b, uint64_t bytes)
{
	pthread_mutex_lock(&b->lock);
	b->used -= (int64_t)bytes;
	b->entered--;
	pthread_cond_broadcast(&b->moved);
	pthread_mutex_unlock(&b->lock);
}

void budget_add(struct budget *b, int64_t bytes)
{
	pthread_mutex_lock(&b->lock);
	b->used += bytes;
	assert(b->used >= 0);
	if (bytes < 0)
		pthread_cond_broadcast(&b->moved);
	pthread_mutex_unlock(&b->lock);
}

/* Under the lock. True: the buffers fit, or no other worker has any; they are counted. */
static bool grant(struct budget *b, const struct budget_buffers *w)
{
	bool fits = b->used + w->bytes <= (int64_t)b->max + BUFFERS_BEYOND &&
		    (!w->tables || b->tables + w->tables <= (int64_t)b->cache);
	if (b->buffering && (b->buffering == b->workers || !fits))
		return false;
	b->buffering++;
	b->used += w->bytes;
	b->tables += w->tables;
	return true;
}

bool budget_buffers_take(struct budget *b, struct budget_buffers *w, struct file *f)
{
	pthread_mutex_lock(&b->lock);
	bool given = !fair_first(&b->buffers) && grant(b, w);
	if (!given)
		fair_put(&b->buffers, &f->budget.for_buffers, &w->item);
	pthread_mutex_unlock(&b->lock);
	return given;
}

void budget_buffers_give(struct budget *b, int64_t bytes, int64_t tables)
{
	pthread_mutex_lock(&b->lock);
	assert(b->buffering > 0);
	b->buffering--;
	b->used -= bytes;
	b->tables -= tables;
	pthread_cond_broadcast(&b->moved);
	pthread_mutex_unlock(&b->lock);
}

struct budget_buffers *budget_buffers_next(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	struct fair_item *first = fair_first(&b->buffers);
	struct budget_buffers *w = first ? CONTAINER_OF(first, struct budget_buffers, item) : NULL;
	if (w && grant(b, w))
		fair_take(&b->buffers);
	else
		w = NULL;
	pthread_mutex_unlock(&b->lock);
	return w;
}

bool budget_buffers_wanted(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	bool waits = fair_first(&b->buffers) != NULL;
	pthread_mutex_unlock(&b->lock);
	return waits;
}

unsigned budget_level(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	if (b->used > (int64_t)b->max / 2)
		b->level -= b->level > 1;
	else if (b->used < (int64_t)b->max / 8)
		b->level += b->level < BUDGET_LEVEL_MAX;
	unsigned level = b->level;
	pthread_mutex_unlock(&b->lock);
	return level;
}

uint64_t budget_used(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	uint64_t used = (uint64_t)b->used;
	pthread_mutex_unlock(&b->lock);
	return used;
}

bool budget_gives_up(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	bool gives_up = b->gives_up;
	pthread_mutex_unlock(&b->lock);
	return gives_up;
}

void budget_flight_begin(struct budget *b)
{
	pthread_mutex_lock(&b->lock);
	b->in_flight++;
	pthread_mutex_unlock(&b->lock);
}

void budget_flight_end(struct budget *b, struct file *f, int rc)
{
	pthread_mutex_lock(&b->lock);
	assert(b->in_flight > 0);
	b->in_flight--;
	b->landed += rc >= 0;
	f->budget.rc = rc;
	if (rc < 0) {
		b->failures++;
		b->last_rc = rc;
	}
	pthread_cond_broadcast(&b->moved);
	pthread_mutex_unlock(&b->lock);
}
