/* SEEK_DATA and SEEK_HOLE of file.h. */
#include "fs/file/file.h"

#include <unistd.h>

static bool has_data(const struct file *f, uint32_t n)
{
	return !frame_is_hole(f->frame, n) || dirty_find(&f->dirty, n);
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
	while (n < last && has_data(f, n) != (whence == SEEK_DATA))
		n++;
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
