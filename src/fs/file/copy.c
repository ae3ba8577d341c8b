#include "fs/file/copy.h"

#include "fs/file/alone.h"
#include "fs/file/read.h"
#include "fs/file/share.h"
#include "fs/file/sync.h"
#include "fs/file/write.h"
#include "fs/workspace.h"

/*
 * The most that one request copies, so that its thread is free soon: the caller comes back for
 * more.
 */
#define COPY_MOST (256u << 20)
#define COPY_BYTES_MOST (32u << 20)
#define COPY_STEP (1u << 20)

/* A stored chunk that takes more memory than this is copied as bytes. */
#define RAW_MOST (8u << 20)

/*
 * True: both files have a chunk border at these offsets, and if the source's chunk is short, it is
 * the end of what is copied. Sets *from, the source's chunk, and what the target's is to be.
 */
static bool is_whole_chunk(const struct file_copy *c, uint64_t done, uint32_t *from,
			   struct file_chunk *to)
{
	const struct file *f = c->from;
	uint32_t size = frame_info(f->frame)->chunk_size;
	uint64_t at = c->from_at + done, to_at = c->to_at + done;

	if (f->npy || !size || at >= frame_size(f->frame) || size != c->to->chunk_size ||
	    at % size || to_at % size)
		return false;
	if (to_at / size >= UINT32_MAX)
		return false;
	*from = frame_chunk_at(f->frame, at);
	*to = (struct file_chunk){.n = (uint32_t)(to_at / size),
				  .len = frame_chunk_span(f->frame, *from).len,
				  .size = size};
	return to->len <= c->len - done;
}

/* The lock of the source is held. */
static int read_stored(const struct file_copy *c, uint64_t done, struct workspace *ws,
		       struct file_chunk *to)
{
	struct file *f = c->from;
	uint32_t from;

	if (f->lost || !is_whole_chunk(c, done, &from, to) || dirty_find(&f->dirty, from))
		return 0;
	int rc = frame_read_copy(f->frame, from, RAW_MOST, ws->scratch, &ws->stored);
	if (rc < 0)
		return rc == -ENOTSUP || rc == -E2BIG ? 0 : rc;
	to->stored = buf_view(&ws->stored);
	policy_lend(&f->policy, f->frame, &to->origin);
	return 1;
}

/* 1: *to is the chunk in its stored form, in ws->stored. 0: it has to be copied as bytes. */
static int read_raw(const struct file_copy *c, uint64_t done, struct workspace *ws,
		    struct file_chunk *to)
{
	struct file *f = c->from;

	enum sidecar_entered how = file_enter_shared(f);
	pthread_rwlock_rdlock(&f->lock);
	int rc = read_stored(c, done, ws, to);
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	return rc;
}

/* 1: copied. 0: to be copied by bytes. */
static int copy_chunk(struct file_copy *c, uint64_t done, struct file_chunk *to)
{
	struct workspace *ws = workspace_get();

	if (!ws)
		return -ENOMEM;
	int rc = read_raw(c, done, ws, to);
	c->unread = rc < 0;
	return rc <= 0 ? rc : file_put_chunk(c->to, to);
}

/* Copies bytes up to the next place where a whole chunk may begin. */
static ssize_t copy_bytes(struct file_copy *c, uint64_t done, struct workspace *ws)
{
	uint64_t at = c->from_at + done, to = c->to_at + done;
	uint32_t size = c->to->chunk_size;
	uint64_t len = min_u64(min_u64(c->len - done, COPY_STEP), size - to % size);

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
	struct file_chunk chunk;

	err_clear();
	/* Data that waits to be compressed would be decoded and compressed twice. */
	if (rc >= 0 && c->len >= c->to->chunk_size && c->from->writable && file_changed(c->from))
		IGNORE(file_sync(c->from, COMMIT_LATER));
	while (rc >= 0 && done < min_u64(c->len, COPY_MOST) && by_bytes < COPY_BYTES_MOST) {
		rc = copy_chunk(c, done, &chunk);
		if (rc > 0) {
			done += chunk.len;
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
