#include "fs/file/alone.h"

#include "frame/range.h"
#include "fs/dirty/flush.h"
#include "fs/file/share.h"
#include "fs/file/write_impl.h"

void file_enter_alone(struct file *f)
{
	pthread_rwlock_wrlock(&f->gate);
	pthread_rwlock_wrlock(&f->lock);
	/* The gate does not keep a writer of another file from flushing this one. */
	while (f->dirty.flushing.count) {
		pthread_rwlock_unlock(&f->lock);
		IGNORE(flush_wait(f)); /* it will be tried again */
		pthread_rwlock_wrlock(&f->lock);
	}
	touched_whole(&f->unsynced.touched); /* whoever wants to be alone changes more than bytes */
}

void file_leave_alone(struct file *f)
{
	pthread_rwlock_unlock(&f->lock);
	pthread_rwlock_unlock(&f->gate);
}

static int enter(struct file *f)
{
	err_clear();
	file_catch_up(f);
	file_enter_alone(f);
	return file_check_change(f);
}

/*
 * Follows enter_to_store. The new times need the lock of the inode, which comes before the sidecar.
 */
static int leave_stored(struct file *f, enum sidecar_entered how, int rc)
{
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	if (rc >= 0)
		file_note_change(f, FILE_CLOCK_NOW);
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

static int leave(struct file *f, int rc)
{
	return leave_stored(f, SIDECAR_NONE, rc);
}

static int resize(struct file *f, uint64_t size)
{
	if (size && frame_size(f->frame) == 0)
		file_adopt_pipeline(f);
	return size > frame_max_size(f->frame) ? -EFBIG : file_resize_locked(f, size);
}

/*
 * The last chunk comes into memory when its length changes. Where nothing that waits can be stored
 * this goes on all the same: it may be what makes room.
 */
int file_truncate(struct file *f, uint64_t size)
{
	uint64_t most = size ? f->chunk_size : 0;

	file_wait_for_others(f); /* not with memory reserved */
	bool entered = most && budget_enter(f->fs->budget, most, 0, f) >= 0;
	int rc = enter(f);
	if (rc >= 0)
		rc = resize(f, size);
	if (rc >= 0)
		arrivals_release(&f->arrivals, size, UINT64_MAX);
	rc = leave(f, rc);
	if (entered)
		budget_leave(f->fs->budget, most);
	return rc;
}

static int extend(struct file *f, uint64_t size)
{
	return size > frame_size(f->frame) ? resize(f, size) : 0;
}

int file_extend(struct file *f, uint64_t size)
{
	uint64_t most = f->chunk_size; /* for the last chunk, when it gets longer */

	TRY(file_enter_budget(f, most, 0));
	int rc = enter(f);
	if (rc >= 0)
		rc = extend(f, size);
	rc = leave(f, rc);
	budget_leave(f->fs->budget, most);
	return rc;
}

static int zero_piece(struct file *f, const struct piece *p)
{
	struct dirty_chunk *c = dirty_find(&f->dirty, p->chunk);

	if (p->lo == 0 && p->hi == frame_chunk_span(f->frame, p->chunk).len) {
		if (c)
			dirty_drop(f, c);
		frame_put_zeros(f->frame, p->chunk);
		return 0;
	}
	if (!c && frame_is_hole(f->frame, p->chunk))
		return 0;
	TRY(file_check_memory(f));
	return dirty_write(f, *p, NULL, NULL, &c);
}

static int zero(struct file *f, uint64_t at, uint64_t len)
{
	uint64_t size = frame_size(f->frame);
	struct piece p;

	if (at >= size)
		return 0;
	len = min_u64(len, size - at);
	struct range r = range_of(at, len, f->chunk_size);
	while (range_next(&r, &p))
		TRY(zero_piece(f, &p));
	arrivals_release(&f->arrivals, at, at + len);
	return 0;
}

int file_zero(struct file *f, uint64_t at, uint64_t len)
{
	uint64_t most = 2 * (uint64_t)f->chunk_size; /* for those at both ends of the range */

	TRY(file_enter_budget(f, most, 0));
	int rc = enter(f);
	if (rc >= 0)
		rc = zero(f, at, len);
	rc = leave(f, rc);
	budget_leave(f->fs->budget, most);
	return rc;
}

/* Do the rules of policy.h allow this chunk in the file? */
static int admit(struct file *f, const struct file_chunk *c, uint64_t size)
{
	struct policy_guest g = {.origin = &c->origin,
				 .file_size = size,
				 .chunk_size = f->chunk_size,
				 .first = frame_size(f->frame) == 0};
	struct chunk shape = {0};
	bool adopted;

	if (!c->stored.n)
		return 1;
	int rc = chunk_parse(&shape, c->stored, c->stored.n, 0);
	g.typesize = shape.typesize;
	g.blocksize = shape.blocksize;
	chunk_deinit(&shape);
	if (rc)
		return rc < 0 ? rc : 0;
	if (!policy_admit(&f->policy, &g, &adopted))
		return 0;
	if (adopted) {
		struct pipeline header = policy_header(&f->policy);
		frame_set_pipeline(f->frame, &header);
	}
	f->items_whole |= g.typesize > 1;
	return 1;
}

/* As admit; 0 also where the chunk would not fill its place. -EFBIG. */
static int fits(struct file *f, const struct file_chunk *c, uint64_t end)
{
	uint64_t size = frame_size(f->frame);

	if (f->chunk_size != c->size)
		return 0;
	if (end > frame_max_size(f->frame))
		return -EFBIG;
	if (c->len < f->chunk_size && end < size)
		return 0; /* bytes of the old chunk stay behind it */
	return admit(f, c, max_u64(size, end));
}

static int put_chunk(struct file *f, const struct file_chunk *c)
{
	uint64_t old = frame_size(f->frame), start = (uint64_t)c->n * c->size, at = 0;
	uint64_t end = start + c->len;

	if (old == 0)
		file_adopt_pipeline(f);
	int rc = fits(f, c, end);
	if (rc <= 0)
		return rc;
	if (end > old)
		TRY(file_resize_locked(f, end));
	rc = c->stored.n ? file_store_chunk(f, c->n, c->stored, &at) : 0;
	if (rc >= 0) {
		struct dirty_chunk *dirty = dirty_find(&f->dirty, c->n);
		if (dirty)
			dirty_drop(f, dirty);
		file_replace_chunk(f, c->n, at, (uint32_t)c->stored.n);
		arrivals_come(&f->arrivals, old, start, end);
	} else if (end > old) {
		file_shrink_back(f, old);
	}
	return rc < 0 ? rc : 1;
}

/* As enter, to store to the frame. *how: for leave_stored, also if it fails. */
static int enter_to_store(struct file *f, enum sidecar_entered *how)
{
	int rc = enter(f), entered;

	for (;;) {
		pthread_rwlock_unlock(&f->lock); /* the sidecar is taken before it: fs.h */
		entered = file_enter_store(f, how);
		pthread_rwlock_wrlock(&f->lock);
		if (!f->dirty.flushing.count)
			break;
		pthread_rwlock_unlock(&f->lock);
		sidecar_leave(&f->sidecar, *how); /* the workers enter it, too */
		IGNORE(flush_wait(f));
		pthread_rwlock_wrlock(&f->lock);
	}
	return rc < 0 ? rc : entered;
}

static int put_chunk_once(struct file *f, const struct file_chunk *c)
{
	enum sidecar_entered how;

	TRY(file_commit_replaced(f));
	int rc = enter_to_store(f, &how);
	return leave_stored(f, how, rc < 0 ? rc : put_chunk(f, c));
}

/* More often than another program changes a file between two looks at it. */
#define STALE_TRIES 8

static int put_chunk_entered(struct file *f, const struct file_chunk *c)
{
	uint64_t most = f->chunk_size; /* for the last chunk, when it gets longer */

	TRY(file_enter_budget(f, most, c->stored.n));
	int rc = put_chunk_once(f, c);
	/* What another program wrote is read first, unless changes of ours wait for that frame. */
	for (int i = 1; rc == -ESTALE && i < STALE_TRIES && !file_changed(f); i++)
		rc = put_chunk_once(f, c);
	budget_leave(f->fs->budget, most);
	return rc;
}

int file_put_chunk(struct file *f, const struct file_chunk *c)
{
	struct lock_wait lock = {.what = SIDECAR_STORE};
	int rc;

	do
		rc = put_chunk_entered(f, c);
	while (file_lock_comes(f, rc, &lock));
	return rc;
}
