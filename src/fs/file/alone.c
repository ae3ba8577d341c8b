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
		IGNORE(flush_wait(f)); /* it will be retried */
		pthread_rwlock_wrlock(&f->lock);
	}
	touched_whole(&f->unsynced.touched); /* changes made here go beyond bytes */
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

/* `changed`: something was changed, even if the rest has failed. */
static void leave(struct file *f, bool changed)
{
	pthread_rwlock_unlock(&f->lock);
	if (changed)
		file_note_change(f, FILE_FROM_CALLER);
	pthread_rwlock_unlock(&f->gate);
}

static int resize(struct file *f, uint64_t size)
{
	if (size && frame_size(f->frame) == 0)
		file_adopt_pipeline(f);
	return size > frame_max_size(f->frame) ? -EFBIG : file_resize_locked(f, size);
}

/*
 * The last chunk is loaded into memory when its length changes. If budget_enter fails because
 * nothing that waits can be stored, this goes on all the same: it may be what makes room.
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
	leave(f, rc >= 0);
	if (entered)
		budget_leave(f->fs->budget, most);
	return rc;
}

int file_extend(struct file *f, uint64_t size)
{
	uint64_t most = f->chunk_size; /* for the last chunk, if it gets longer */

	TRY(file_enter_budget(f, most, 0));
	int rc = enter(f);
	if (rc >= 0 && size > frame_size(f->frame))
		rc = resize(f, size);
	leave(f, rc >= 0);
	budget_leave(f->fs->budget, most);
	return rc;
}

/* After a failure p->hi is the end of what was zeroed. */
static int zero_piece(struct file *f, struct piece *p)
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
	return dirty_write(f, p, NULL, NULL, &c);
}

/* *any: something was zeroed, perhaps before a failure. */
static int zero(struct file *f, uint64_t at, uint64_t len, bool *any)
{
	uint64_t size = frame_size(f->frame);
	struct piece p;

	if (at >= size)
		return 0;
	TRY(file_check_memory(f));
	len = min_u64(len, size - at);
	struct range r = range_of(at, len, f->chunk_size);
	while (range_next(&r, &p)) {
		int rc = zero_piece(f, &p);
		*any |= p.hi > p.lo;
		TRY(rc);
	}
	arrivals_release(&f->arrivals, at, at + len);
	return 0;
}

int file_zero(struct file *f, uint64_t at, uint64_t len)
{
	uint64_t most = 2 * (uint64_t)f->chunk_size; /* for the chunks at both ends of the range */
	bool any = false;

	TRY(file_enter_budget(f, most, 0));
	int rc = enter(f);
	if (rc >= 0)
		rc = zero(f, at, len, &any);
	leave(f, rc >= 0 || any);
	budget_leave(f->fs->budget, most);
	return rc;
}
