#include "fs/read/impl.h"

#include "fs/file/share.h"
#include "fs/stats.h"

#include <unistd.h>

int file_read_stored(struct file *f, uint32_t n, uint32_t lo, struct span dst)
{
	struct reply r;
	struct fetch x = {.f = f, .n = n, .r = &r};

	reply_begin_at(&r, dst);
	int rc = fetch_stored(&x, lo, (uint32_t)dst.n);
	reply_end(&r, f->fs->cache);
	return rc;
}

int file_read_piece(struct fetch *x, uint32_t n, uint32_t lo, uint32_t len)
{
	struct file *f = x->f;
	if (f->npy)
		TRY(slow_go_on(f->fs, &x->slow));
	struct dirty_chunk *d = dirty_find(&f->dirty, n);
	if (d) {
		stats_add(STATS_FROM_DIRTY, 1);
		return dirty_read(f, d, lo, reply_room(x->r, len));
	}
	if (frame_is_hole(f->frame, n)) {
		memset(reply_room(x->r, len).p, 0, len);
		stats_add(STATS_FROM_HOLE, 1);
		return 0;
	}
	x->n = n;
	return fetch_stored(x, lo, len);
}

static int read_bytes(struct fetch *x, uint64_t at, size_t size)
{
	struct file *f = x->f;

	while (size) {
		uint32_t n = frame_chunk_at(f->frame, at);
		struct frame_span s = frame_chunk_span(f->frame, n);
		uint32_t lo = (uint32_t)(at - s.start);
		uint32_t len = (uint32_t)min_u64(s.len - lo, size);
		TRY(file_read_piece(x, n, lo, len));
		size -= len;
		at += len;
	}
	return 0;
}

int file_read_locked(struct file *f, uint64_t at, struct span dst)
{
	struct reply r;
	struct fetch x = {.f = f, .r = &r};

	reply_begin_at(&r, dst);
	int rc = read_bytes(&x, at, dst.n);
	reply_end(&r, f->fs->cache);
	return rc;
}

/* Under the lock. */
static int read_request(struct fetch *x, const struct file_request *q)
{
	struct file *f = x->f;
	struct file_request known = *q;
	uint64_t end = file_size_locked(f);

	if (q->at >= end)
		return 0;
	known.len = min_u64(q->len, end - q->at);
	x->direct = q->direct;
	x->kind = readahead_note(f, &known);
	return f->npy ? file_read_npy(x, q->at, known.len) : read_bytes(x, q->at, known.len);
}

static int read_into(struct file *f, const struct file_request *q, struct reply *r)
{
	struct fetch x = {.f = f, .r = r, .slow.q = q};

	err_clear();
	int how = file_enter_shared(f);
	pthread_rwlock_rdlock(&f->lock);
	int rc = read_request(&x, q);
	pthread_rwlock_unlock(&f->lock);
	slow_end(f->fs, &x.slow);
	sidecar_leave(&f->sidecar, how);
	if (rc >= 0)
		stats_add(STATS_READ_BYTES, r->n);
	return rc;
}

int file_read(struct file *f, const struct file_request *q, struct reply *r)
{
	TRY(reply_begin(r, q->len));
	return read_into(f, q, r);
}

int file_read_again(struct file *f, uint64_t at, uint64_t len, struct reply *r)
{
	struct fetch x = {.f = f, .kind = READ_RANDOM, .r = r};

	TRY(reply_begin(r, len));
	err_clear();
	pthread_rwlock_rdlock(&f->lock);
	uint64_t end = min_u64(at + len, file_size_locked(f));
	int rc = at < end ? read_bytes(&x, at, end - at) : 0;
	pthread_rwlock_unlock(&f->lock);
	if (rc >= 0)
		stats_add(STATS_READ_BYTES, r->n);
	return rc;
}

ssize_t file_read_at(struct file *f, uint64_t at, struct span dst)
{
	struct reply r;

	reply_begin_at(&r, dst);
	int rc = read_into(f, &(struct file_request){.at = at, .len = dst.n}, &r);
	ssize_t n = (ssize_t)r.n;
	reply_end(&r, f->fs->cache);
	return rc < 0 ? rc : n;
}

/* Decodes the piece that begins at `at`, within one chunk. Returns its length, or an error. */
static int64_t decode_piece(struct fetch *x, uint64_t at, uint64_t len)
{
	struct file *f = x->f;
	uint32_t n = frame_chunk_at(f->frame, at);
	struct frame_span s = frame_chunk_span(f->frame, n);
	uint32_t lo = (uint32_t)(at - s.start), hi = (uint32_t)min_u64(s.len, lo + len);

	if (!dirty_find(&f->dirty, n) && frame_slot(f->frame, n) == SLOT_STORED) {
		x->n = n;
		TRY(fetch_ahead(x, lo, hi));
	}
	return hi - lo;
}

/*
 * Only a hint: where the file is being written, or another program may change the frame, nothing is
 * decoded ahead, so that a worker never waits. What fails here will fail again for the reader, who
 * reports it.
 */
void file_decode_ahead(struct file *f, uint64_t at, uint64_t len)
{
	struct fetch x = {.f = f};

	if (f->npy || f->sidecar.there || pthread_rwlock_tryrdlock(&f->lock) != 0)
		return;
	err_clear();
	uint64_t end = min_u64(at + len, frame_size(f->frame));
	while (at < end) {
		int64_t done = decode_piece(&x, at, end - at);
		if (done <= 0)
			break;
		at += (uint64_t)done;
	}
	pthread_rwlock_unlock(&f->lock);
}

static uint32_t next_in(const struct dirty_set *s, uint32_t n)
{
	const struct dirty_chunk *c = dirty_set_from(s, n);
	return c ? c->n : UINT32_MAX; /* this chunk may have been cut off */
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

static off_t seek_locked(struct file *f, uint64_t at, int whence)
{
	bool data = whence == SEEK_DATA;
	uint64_t end = file_size_locked(f);

	if (at >= end)
		return -ENXIO;
	if (f->npy)
		return (off_t)(data ? at : end);
	uint32_t n = frame_chunk_at(f->frame, at);
	n = data ? next_data(f, n) : next_hole(f, n);
	if (n == frame_nchunks(f->frame))
		return data ? -ENXIO : (off_t)end;
	return (off_t)max_u64(at, frame_chunk_span(f->frame, n).start);
}

off_t file_seek(struct file *f, uint64_t at, int whence)
{
	pthread_rwlock_rdlock(&f->lock);
	off_t found = seek_locked(f, at, whence);
	pthread_rwlock_unlock(&f->lock);
	return found;
}
