#include "fs/file/loss.h"

#include "fs/file/write.h"

int file_refused(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = f->arrivals.refused.n ? f->arrivals.error : 0;
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

bool file_has_refused(struct file *f)
{
	return file_refused(f) < 0;
}

/*
 * Goes on without the refused bytes: they become holes. The file ends where it would have with
 * them, as it does for the kernel, so there may be a hole at its end.
 */
static bool forget_refused(struct file *f)
{
	uint64_t end = min_u64(ranges_end(&f->arrivals.refused), frame_max_size(f->frame));

	touched_whole(&f->unsynced.touched);
	if (end > frame_size(f->frame) && file_resize_locked(f, end) < 0)
		return false;
	arrivals_give_up(&f->arrivals);
	return true;
}

bool file_accept_long_refused(struct file *f)
{
	uint64_t first = ranges_first(&f->arrivals.refused);

	if (!arrivals_passed_refused(&f->arrivals) || !forget_refused(f))
		return false;
	file_log_err(f, "has zeros in place of unwritten data, from byte %llu on",
		     (unsigned long long)first);
	file_lose(f, f->arrivals.error);
	return true;
}

void file_accept_refused(struct file *f, _Atomic uint32_t *told)
{
	pthread_rwlock_rdlock(&f->gate);
	pthread_rwlock_wrlock(&f->lock);
	if (f->arrivals.refused.n && *told == f->arrivals.refusals)
		(void)forget_refused(f); /* or the fsync fails once more */
	*told = f->arrivals.refusals;
	pthread_rwlock_unlock(&f->lock);
	pthread_rwlock_unlock(&f->gate);
}

void file_lose(struct file *f, int rc)
{
	pthread_mutex_lock(&f->flight.lock);
	f->flight.losses++;
	f->flight.loss_rc = rc;
	pthread_mutex_unlock(&f->flight.lock);
}

int file_take_loss(struct file *f, _Atomic uint32_t *seen)
{
	pthread_mutex_lock(&f->flight.lock);
	int rc = *seen == f->flight.losses ? 0 : f->flight.loss_rc;
	*seen = f->flight.losses;
	pthread_mutex_unlock(&f->flight.lock);
	return rc;
}

uint32_t file_losses(struct file *f)
{
	pthread_mutex_lock(&f->flight.lock);
	uint32_t n = f->flight.losses;
	pthread_mutex_unlock(&f->flight.lock);
	return n;
}
