#include "fs/file/copy.h"

#include "fs/dirty/workspace.h"
#include "fs/file/alone.h"
#include "fs/file/read.h"
#include "fs/file/sync.h"
#include "fs/file/write.h"

/*
 * The most that one request copies, so that its thread is free soon: the caller comes back for
 * more.
 */
#define COPY_MOST (256u << 20)
#define COPY_BYTES_MOST (32u << 20)
#define COPY_STEP (1u << 20)

/* A stored chunk that takes more memory than this is copied as bytes. */
#define RAW_MOST (8u << 20)

/* One whole chunk of the target, and what the source has in its place. */
struct raw {
	uint32_t from, to; /* chunks */
	uint32_t len;      /* decoded bytes of both */
	uint32_t size;     /* of their chunks */
	struct file_chunk chunk;
};

/*
 * True: both files have a chunk border at these offsets, and if the source's chunk is short, it is
 * the end of what is copied.
 */
static bool is_whole_chunk(const struct file_copy *c, uint64_t done, struct raw *r)
{
	struct file *from = c->from;
	uint32_t size = frame_info(from->frame)->chunk_size;
	uint64_t at = c->from_at + done, to = c->to_at + done;

	if (from->npy || !size || at >= frame_size(from->frame) ||
	    size != c->to->chunk_size || at % size || to % size)
		return false;
	if (to / size >= UINT32_MAX)
		return false;
	r->from = frame_chunk_at(from->frame, at);
	r->to = (uint32_t)(to / size);
	r->len = frame_chunk_span(from->frame, r->from).len;
	r->size = size;
	return r->len <= c->len - done;
}

/* 1: ws->stored has the chunk in its stored form. 0: it has to be copied as bytes. */
static int read_raw(const struct file_copy *c, uint64_t done, struct workspace *ws, struct raw *r)
{
	struct file *f = c->from;

	pthread_rwlock_rdlock(&f->lock);
	int rc = !f->lost && is_whole_chunk(c, done, r) && !dirty_find(&f->dirty, r->from);
	if (rc) {
		rc = frame_read_copy(f->frame, r->from, RAW_MOST, ws->scratch, &ws->stored);
		rc = rc == -ENOTSUP || rc == -E2BIG ? 0 : rc < 0 ? rc : 1;
	}
	pthread_rwlock_unlock(&f->lock);
	return rc;
}

/* 1: copied. 0: to be copied by bytes. */
static int copy_chunk(struct file_copy *c, uint64_t done, struct raw *r)
{
	struct workspace *ws = workspace_get();

	if (!ws)
		return -ENOMEM;
	int rc = read_raw(c, done, ws, r);
	c->unread = rc < 0;
	if (rc <= 0)
		return rc;
	r->chunk = (struct file_chunk){
		.n = r->to, .len = r->len, .size = r->size, .stored = buf_view(&ws->stored)};
	pthread_rwlock_rdlock(&c->from->lock);
	policy_lend(&c->from->policy, c->from->frame, &r->chunk.origin);
	pthread_rwlock_unlock(&c->from->lock);
	return file_put_chunk(c->to, &r->chunk);
}

/* Copies bytes up to the next place where a whole chunk may begin. */
static ssize_t copy_bytes(struct file_copy *c, uint64_t done, struct workspace *ws)
{
	uint64_t at = c->from_at + done, to = c->to_at + done;
	uint32_t size = c->to->chunk_size;
	uint64_t len = min_u64(c->len - done, COPY_STEP);

	if (size)
		len = min_u64(len, size - to % size);
	TRY(buf_reserve_fresh(&ws->copy, len));
	ssize_t n = file_read_at(c->from, at, span_of(ws->copy.p, len));
	struct file_data d = {.at = to, .bytes = view_of(ws->copy.p, n < 0 ? 0 : (size_t)n)};
	c->unread = n < 0;
	return n < 0 ? n : file_write(c->to, &d, FILE_CLOCK_NOW);
}

ssize_t file_copy(struct file_copy *c)
{
	struct workspace *ws = workspace_get();
	uint64_t done = 0, by_bytes = 0;
	ssize_t rc = ws ? 0 : -ENOMEM;
	struct raw raw;

	err_clear();
	/* Data that waits to be compressed would be decoded and compressed twice. */
	if (rc >= 0 && c->len >= c->to->chunk_size && c->from->writable && file_changed(c->from))
		IGNORE(file_sync(c->from, COMMIT_LATER));
	while (rc >= 0 && done < min_u64(c->len, COPY_MOST) && by_bytes < COPY_BYTES_MOST) {
		rc = copy_chunk(c, done, &raw);
		if (rc > 0) {
			done += raw.len;
			continue;
		}
		if (rc == 0)
			rc = copy_bytes(c, done, ws);
		if (rc <= 0)
			break;
		done += (uint64_t)rc;
		by_bytes += (uint64_t)rc;
	}
	return done ? (ssize_t)done : rc;
}
