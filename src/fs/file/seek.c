/* SEEK_DATA and SEEK_HOLE. */
#include "fs/file/read.h"

#include <unistd.h>

static uint32_t next_in(const struct dirty_set *s, uint32_t n)
{
	const struct dirty_chunk *c = dirty_set_from(s, n);
	return c ? c->n : UINT32_MAX; /* which may have been cut off */
}

/* The first chunk from n on that has data, or frame_nchunks. */
static uint32_t next_data(const struct file *f, uint32_t n)
{
	uint32_t stored = frame_next_data(f->frame, n);
	uint32_t dirty = next_in(&f->dirty.dirty, n), flushing = next_in(&f->dirty.flushing, n);

	return (uint32_t)min_u64(stored, min_u64(dirty, flushing));
}

static uint32_t next_hole(const struct file *f, uint32_t n)
{
	uint32_t last = frame_nchunks(f->frame);

	while ((n = frame_next_hole(f->frame, n)) < last && dirty_find(&f->dirty, n))
		n++;
	return n;
}

static int seek_locked(struct file *f, uint64_t at, int whence, uint64_t *found)
{
	uint64_t end = file_size_locked(f);

	if (at >= end)
		return -ENXIO;
	if (f->npy) {
		*found = whence == SEEK_DATA ? at : end;
		return 0;
	}
	uint32_t n = frame_chunk_at(f->frame, at), last = frame_nchunks(f->frame);
	n = whence == SEEK_DATA ? next_data(f, n) : next_hole(f, n);
	if (n == last) {
		*found = end;
		return whence == SEEK_DATA ? -ENXIO : 0;
	}
	*found = max_u64(at, frame_chunk_span(f->frame, n).start);
	return 0;
}

int file_seek(struct file *f, uint64_t at, int whence, uint64_t *found)
{
	pthread_rwlock_rdlock(&f->lock);
	int rc = seek_locked(f, at, whence, found);
	pthread_rwlock_unlock(&f->lock);
	return rc;
}
