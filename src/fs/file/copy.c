#include "fs/file/copy.h"

#include "fs/dirty/flush.h"
#include "fs/file/alone.h"
#include "fs/file/commit.h"
#include "fs/file/share.h"
#include "fs/file/sync.h"
#include "fs/file/write_impl.h"
#include "fs/inode/caps.h"
#include "fs/read/read.h"
#include "fs/room.h"
#include "fs/workspace.h"

/*
 * The most that one request copies, so that its thread is soon free: the caller comes back for
 * more.
 */
#define COPY_MOST (256u << 20)
#define COPY_BYTES_MOST (32u << 20)
#define COPY_STEP (1u << 20)

/* A stored chunk that takes more memory than this is copied as bytes. */
#define RAW_MOST (8u << 20)

/*
 * The most that each buffer keeps for the next copy: all that a small file takes. From this size on
 * malloc returns freed memory to the system (main.c). Any of the threads that serve may get the
 * next copy, and the kernel wakes them in turn: a few copies would leave two chunk-sized buffers in
 * each of them. Fresh pages cost only once per request, which may copy 256 MiB.
 */
#define COPY_KEEP (256u << 10)

/* A chunk in its stored form, on its way from one frame to another. */
struct raw_chunk {
	uint32_t n;         /* its number in the target        */
	uint32_t len;       /* its decoded bytes               */
	uint32_t size;      /* the chunk size that n counts in */
	struct view stored; /* no bytes: a hole                */
	uint64_t borrowed;  /* memory from the cache's share   */
	struct policy_origin origin;
};

/*
 * True: both files have a chunk border at these offsets, and the source's chunk is not longer than
 * what is left to copy. Sets *from to the source's chunk, and describes the target's in *to.
 */
static bool is_whole_chunk(const struct file_copy *c, uint64_t done, uint32_t *from,
			   struct raw_chunk *to)
{
	const struct file *f = c->from;
	uint32_t size = frame_info(f->frame)->chunk_size;
	uint64_t at = c->from_at + done, to_at = c->to_at + done;

	if (f->npy || !size || at >= frame_size(f->frame) || size != c->to->chunk_size ||
	    range_within(at, size) || range_within(to_at, size) ||
	    range_nchunks(to_at, size) >= UINT32_MAX)
		return false;
	*from = frame_chunk_at(f->frame, at);
	*to = (struct raw_chunk){.n = range_chunk(to_at, size),
				 .len = frame_chunk_span(f->frame, *from).len,
				 .size = size};
	return to->len <= c->len - done;
}

/*
 * A chunk larger than any thread may keep is held in memory that the cache lends. This does not
 * wait for a loan, since the thread will hold it while it waits for the target. False: too much is
 * on loan already.
 */
static bool borrow(struct fs *fs, struct raw_chunk *to)
{
	uint64_t most = min_u64(to->size, RAW_MOST);

	if (most <= LARGE_FREE)
		return true;
	if (!large_borrow(fs->large, most))
		return false;
	to->borrowed = most;
	return true;
}

static void give_back(struct fs *fs, struct workspace *ws, const struct raw_chunk *to)
{
	if (!to->borrowed)
		return;
	workspace_done(&ws->stored);
	large_return(fs->large, to->borrowed);
}

/* The lock of the source is held. */
static int read_stored(const struct file_copy *c, uint64_t done, struct workspace *ws,
		       struct raw_chunk *to)
{
	struct file *f = c->from;
	uint32_t from;

	if (f->lost || !is_whole_chunk(c, done, &from, to) || dirty_find(&f->dirty, from))
		return 0;
	if (!frame_is_hole(f->frame, from) && !borrow(f->fs, to))
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
		    struct raw_chunk *to)
{
	struct file *f = c->from;

	int how = file_enter_shared(f);
	pthread_rwlock_rdlock(&f->lock);
	int rc = read_stored(c, done, ws, to);
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	return rc;
}

/* 1: the rules of policy.h allow this chunk in the file. 0: they do not. */
static int admit(struct file *f, const struct raw_chunk *c, uint64_t size)
{
	struct policy_guest g = {.origin = &c->origin,
				 .file_size = size,
				 .chunk_size = f->chunk_size};
	struct chunk shape = {0};

	if (!c->stored.n)
		return 1;
	int rc = chunk_parse(&shape, c->stored, c->stored.n, 0);
	g.typesize = shape.typesize;
	g.blocksize = shape.blocksize;
	chunk_deinit(&shape);
	if (rc)
		return rc < 0 ? rc : 0;
	if (!policy_admit(&f->policy, f->frame, &g))
		return 0;
	f->maybe_typed |= g.typesize > 1;
	return 1;
}

/* As admit; also 0 where the chunk would not fill its place. -EFBIG. */
static int fits(struct file *f, const struct raw_chunk *c, uint64_t end)
{
	uint64_t size = frame_size(f->frame);

	if (f->chunk_size != c->size)
		return 0;
	if (end > frame_max_size(f->frame))
		return -EFBIG;
	if (c->len < f->chunk_size && end < size)
		return 0; /* bytes of the old chunk would remain after it */
	return admit(f, c, max_u64(size, end));
}

/* Writes to free space of the frame; *p says where. */
static int store(struct file *f, uint32_t n, struct view stored, struct frame_place *p)
{
	caps_note(f->inode, f->fd);
	TRY(frame_alloc(f->frame, n, (uint32_t)stored.n, p));
	int rc = frame_write(f->frame, p, stored);
	if (rc < 0)
		frame_unalloc(f->frame, p);
	return rc;
}

/* Alone with the file, and in its sidecar. */
static int put_locked(struct file *f, const struct raw_chunk *c)
{
	uint64_t old = frame_size(f->frame), start = (uint64_t)c->n * c->size;
	uint64_t end = start + c->len;
	struct frame_place place = {0};

	if (old == 0)
		file_adopt_pipeline(f);
	int rc = fits(f, c, end);
	if (rc <= 0)
		return rc;
	if (end > old)
		TRY(file_resize_locked(f, end));
	rc = c->stored.n ? store(f, c->n, c->stored, &place) : 0;
	if (rc >= 0) {
		struct dirty_chunk *dirty = dirty_find(&f->dirty, c->n);
		if (dirty)
			dirty_drop(f, dirty);
		file_replace_chunk(f, c->n, &place);
		arrivals_come(&f->arrivals, old, start, end);
	} else if (end > old) {
		file_shrink_back(f, old);
	}
	return rc < 0 ? rc : 1;
}

/* Enters the file alone, and its sidecar for storing. leave has to follow, even after a failure. */
static int enter(struct file *f)
{
	err_clear();
	file_catch_up(f);
	file_enter_alone(f);
	for (;;) {
		pthread_rwlock_unlock(&f->lock); /* the sidecar is taken before it: fs.h */
		int how = file_enter_store(f);
		pthread_rwlock_wrlock(&f->lock);
		if (!f->dirty.flushing.count)
			return how;
		pthread_rwlock_unlock(&f->lock);
		sidecar_leave(&f->sidecar, how); /* the workers enter it, too */
		IGNORE(flush_wait(f)); /* it will be retried */
		pthread_rwlock_wrlock(&f->lock);
	}
}

/* The new times need the lock of the inode, which comes before the sidecar. */
static void leave(struct file *f, int how, bool changed)
{
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	if (changed)
		file_note_change(f, FILE_FROM_CALLER);
	pthread_rwlock_unlock(&f->gate);
}

static int put_alone(struct file *f, const struct raw_chunk *c)
{
	TRY(file_commit_replaced(f));
	int how = enter(f), rc = file_check_change(f);
	if (rc >= 0)
		rc = how < 0 ? how : put_locked(f, c);
	leave(f, how, rc >= 0);
	return rc;
}

/* More times than another program is likely to change a file between two looks at it. */
#define STALE_TRIES 8

static int put_in_budget(struct file *f, const struct raw_chunk *c)
{
	uint64_t most = f->chunk_size; /* for the last chunk, when it gets longer */

	TRY(file_enter_budget(f, most, c->stored.n));
	int rc = put_alone(f, c);
	/* -ESTALE: what another program wrote has to be read first, unless changes of ours wait. */
	for (int i = 1; rc == -ESTALE && i < STALE_TRIES && !file_changed(f); i++)
		rc = put_alone(f, c);
	budget_leave(f->fs->budget, most);
	return rc;
}

/*
 * As file_drain does it on a full disk: frees what earlier chunks of the copy have replaced. True:
 * once per chunk, if it worked.
 */
static bool makes_room(struct file *f, int rc, bool *tried)
{
	if (!err_is_full(rc) || *tried)
		return false;
	*tried = true;
	pthread_rwlock_wrlock(&f->gate);
	rc = f->lost ? -EIO : file_make_room(f);
	pthread_rwlock_unlock(&f->gate);
	return rc >= 0;
}

/*
 * Replaces chunk c->n of the file by this one; the file grows if the chunk ends beyond its end. 1:
 * done. 0: the chunk does not fit there, and its bytes have to be copied instead.
 */
static int put_chunk(struct file *f, const struct raw_chunk *c)
{
	struct lock_wait lock = {.what = SIDECAR_STORE};
	struct room_wait room = {0};
	bool tried = false;
	int rc;

	do
		rc = put_in_budget(f, c);
	while (file_lock_comes(f, rc, &lock) || makes_room(f, rc, &tried) ||
	       file_room_comes(f, rc, &room));
	return rc;
}

/* 1: copied. 0: it has to be copied as bytes. */
static int copy_chunk(struct file_copy *c, uint64_t done, struct workspace *ws,
		      struct raw_chunk *to)
{
	*to = (struct raw_chunk){0};
	int rc = read_raw(c, done, ws, to);
	c->unread = rc < 0;
	if (rc > 0)
		rc = put_chunk(c->to, to);
	give_back(c->to->fs, ws, to);
	return rc;
}

/* Copies bytes up to the next place where a whole chunk may begin. */
static ssize_t copy_bytes(struct file_copy *c, uint64_t done, struct workspace *ws)
{
	uint64_t at = c->from_at + done, to = c->to_at + done;
	uint32_t size = c->to->chunk_size;
	uint64_t len = min_u64(min_u64(c->len - done, COPY_STEP), size - range_within(to, size));

	TRY(buf_reserve_fresh(&ws->copy, len));
	ssize_t n = file_read_at(c->from, at, span_of(ws->copy.p, len));
	struct file_data d = {.at = to, .bytes = view_of(ws->copy.p, n < 0 ? 0 : (size_t)n)};
	c->unread = n < 0;
	return n < 0 ? n : file_write(c->to, &d, FILE_FROM_CALLER);
}

ssize_t file_copy(struct file_copy *c)
{
	struct workspace *ws = workspace_get();
	uint64_t done = 0, by_bytes = 0;
	struct raw_chunk chunk;
	ssize_t rc = 0;

	if (!ws)
		return -ENOMEM;
	err_clear();
	/* Data that waits to be compressed would be decoded and compressed twice. */
	if (c->len >= c->to->chunk_size && c->from->writable && file_changed(c->from))
		IGNORE(file_sync(c->from, COMMIT_LATER)); /* what stays is copied from memory */
	while (rc >= 0 && done < min_u64(c->len, COPY_MOST) && by_bytes < COPY_BYTES_MOST) {
		rc = copy_chunk(c, done, ws, &chunk);
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
	buf_trim(&ws->copy, COPY_KEEP);
	buf_trim(&ws->stored, COPY_KEEP);
	return done ? (ssize_t)done : rc;
}
