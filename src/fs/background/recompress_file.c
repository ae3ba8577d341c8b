#include "fs/background/recompress_file.h"

#include "base/container.h"
#include "codec/codec.h"
#include "fs/file/commit.h"
#include "fs/file/discard.h"
#include "fs/file/share.h"
#include "fs/file/sync.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"
#include "fs/stats.h"
#include "fs/workspace.h"

#include <stdio.h>
#include <sys/xattr.h>

#define LEVEL 9

/* A longer chunk would keep the thread from stopping for seconds. */
#define CHUNK_MOST (8u << 20)

/* Saving less than this fraction of the bytes is not worth the write. */
#define WORTH 32

/* How many bytes are replaced between two commits: the file grows by this much for a while. */
#define BATCH (8u << 20)

/*
 * While one chunk after another gains nothing, ever fewer are tried, but at least one in this many.
 */
#define STRIDE_MOST 64

void recompress_mark(const struct stat *st, char text[static RECOMPRESS_MARK_MAX])
{
	snprintf(text, RECOMPRESS_MARK_MAX, "%d %llu %lld %lld.%09ld", LEVEL,
		 (unsigned long long)st->st_ino, (long long)st->st_size,
		 (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* Another program may have put a frame in its place that can only be read. The locks are held. */
static bool is_at_rest(const struct file *f)
{
	return file_check_change(f) == 0 && !f->dirty.dirty.count && !f->dirty.flushing.count;
}

/* 1: the stored bytes of chunk n are in ws->base. 0: it stays as it is. */
static int take(struct file *f, uint32_t n, struct workspace *ws)
{
	int rc = 0;

	pthread_rwlock_rdlock(&f->lock);
	if (is_at_rest(f) && n < frame_nchunks(f->frame) &&
	    frame_slot(f->frame, n) == SLOT_STORED &&
	    frame_chunk_span(f->frame, n).len <= CHUNK_MOST) {
		rc = frame_read_copy(f->frame, n, 2 * CHUNK_MOST, ws->scratch, &ws->base);
		if (rc >= 0)
			rc = frame_stores(f->frame, n, buf_view(&ws->base));
	}
	pthread_rwlock_unlock(&f->lock);
	return rc == -ENOTSUP || rc == -E2BIG ? 0 : rc;
}

static int decode(const struct chunk *c, struct workspace *ws)
{
	struct run all = {0, c->nblocks};
	struct extent e = chunk_extent(c, all);

	TRY(buf_reserve_fresh(&ws->plain, c->nbytes));
	ws->plain.n = c->nbytes;
	return chunk_decode(c, ws->scratch, all, view_part(buf_view(&ws->base), e.off, e.len),
			    buf_span(&ws->plain));
}

/* Compares old and new: the new bytes replace the old ones, so they must decode to the same. */
static int prove(const struct chunk *c, struct workspace *ws)
{
	TRY(buf_reserve_fresh(&ws->copy, c->nbytes));
	TRY(chunk_decode_all(ws->scratch, buf_view(&ws->stored), 0,
			     span_of(ws->copy.p, c->nbytes)));
	return memcmp(ws->copy.p, ws->plain.p, c->nbytes)
		       ? CORRUPT("chunk encoded again", c->nbytes)
		       : 0;
}

/* The pipeline with the smallest result. Chunks of lz4 are written smallest by lz4hc. */
static struct pipeline smallest(const struct chunk *c)
{
	struct pipeline p;

	pipeline_default(&p);
	p.codec = c->codec == CODEC_LZ4 ? CODEC_LZ4HC : c->codec;
	p.level = LEVEL;
	return p;
}

/* 1: the chunk in ws->base is in ws->stored, and smaller. 0: it does not get smaller. */
static int shrink(const struct chunk *c, struct workspace *ws)
{
	struct pipeline p = smallest(c);
	struct chunk_edit all = {.run = {0, c->nblocks}};
	struct chunk_patch patch = {.chunk = c, .stored = buf_view(&ws->base), .pipeline = &p,
				    .edit = &all, .nedits = 1, .nbytes = c->nbytes};

	/* What did not shrink the first time is not tried again. */
	if (c->kind != CHUNK_REGULAR || c->cbytes > c->nbytes)
		return 0;
	TRY(decode(c, ws));
	all.bytes = buf_view(&ws->plain);
	int rc = chunk_patch(ws->scratch, &patch, &ws->stored);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (ws->stored.n + ws->base.n / WORTH > ws->base.n)
		return 0;
	TRY(prove(c, ws));
	return 1;
}

static int encode(struct workspace *ws)
{
	struct chunk c = {0};

	int rc = chunk_parse(&c, buf_view(&ws->base), ws->base.n, 0);
	rc = rc == 0 ? shrink(&c, ws) : rc > 0 ? 0 : rc;
	chunk_deinit(&c);
	return rc;
}

/*
 * Stores the chunk, and enters it into the index. The file is not in use through the mount now: a
 * program that writes to it behind our back, even without locks, must not find chunks of ours among
 * its own, nor our root in place of its own (commit). Checked right before the write, not earlier:
 * finding space for the first chunk reads the headers of all chunks.
 */
static int store(struct file *f, uint32_t n, struct view stored)
{
	struct frame_place place;

	caps_note(f->inode, f->fd);
	TRY(frame_alloc(f->frame, n, (uint32_t)stored.n, &place));
	int rc = frame_compare_root(f->frame) == ROOT_OTHER
			 ? -ESTALE
			 : frame_write(f->frame, &place, stored);
	if (rc < 0) {
		frame_unalloc(f->frame, &place);
		return rc;
	}
	file_replace_chunk(f, n, &place);
	return 1;
}

static int commit(struct file *f)
{
	return file_compare_root(f) == ROOT_OTHER ? -ESTALE : file_try_sync(f, COMMIT_SYNC);
}

/*
 * Replaces the chunk, if its stored bytes are still those that were read. 1: done. 0: they are not.
 */
static int replace(struct file *f, uint32_t n, struct workspace *ws)
{
	pthread_rwlock_rdlock(&f->gate);
	times_hold(f->inode, f->fd); /* nothing changes for the application */
	int how = file_try_enter_store(f), rc = how < 0 ? how : 0;
	pthread_rwlock_wrlock(&f->lock);
	if (rc >= 0 && is_at_rest(f) && n < frame_nchunks(f->frame) &&
	    frame_stores(f->frame, n, buf_view(&ws->base)))
		rc = store(f, n, buf_view(&ws->stored));
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	if (rc > 0)
		times_set_early(f->inode, f->fd); /* the commit may be minutes away */
	pthread_rwlock_unlock(&f->gate);
	if (rc > 0) {
		stats_add(STATS_RECOMPRESSED, 1);
		stats_add(STATS_RECOMPRESSED_FROM, ws->base.n);
		stats_add(STATS_RECOMPRESSED_TO, ws->stored.n);
	}
	return rc;
}

/* Returns how many stored bytes were replaced; 0: none. */
static ssize_t try_chunk(struct file *f, uint32_t n)
{
	struct workspace *ws = workspace_get();

	if (!ws)
		return -ENOMEM;
	err_clear();
	int rc = take(f, n, ws);
	if (rc > 0)
		rc = encode(ws);
	if (rc > 0)
		rc = replace(f, n, ws);
	ssize_t replaced = rc > 0 ? (ssize_t)ws->base.n : rc;
	workspace_trim();
	return replaced;
}

/* How many chunks may be looked at now: none while something waits to be stored. */
static uint32_t count(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	uint32_t n = is_at_rest(f) ? frame_nchunks(f->frame) : 0;
	pthread_rwlock_unlock(&f->lock);
	return n;
}

/* Chunks that are tried at the same time. */
struct round {
	struct file *f;
	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t landed;
	unsigned left;     /* chunks in progress                     */
	uint64_t replaced; /* stored bytes                           */
	int rc;            /* the first failure                      */
};

/* At most so many, and with so many bytes before compression: they are stored before a commit. */
#define ROUND_MOST 64
#define ROUND_BYTES (32u << 20)

struct attempt {
	struct pool_job job;
	struct round *round;
	uint32_t n;
};

static void attempt_run(struct pool_job *job)
{
	struct attempt *a = CONTAINER_OF(job, struct attempt, job);
	struct round *r = a->round;
	ssize_t rc = try_chunk(r->f, a->n);

	pthread_mutex_lock(&r->lock);
	if (rc > 0)
		r->replaced += (uint64_t)rc;
	else if (rc < 0 && !r->rc)
		r->rc = (int)rc;
	if (--r->left == 0)
		pthread_cond_signal(&r->landed);
	pthread_mutex_unlock(&r->lock);
}

/*
 * Tries chunk j->next and, with a pool, one for each of its workers, `stride` apart; j->next
 * becomes the last of them. Adds the stored bytes of those that were replaced to *replaced.
 */
static int try_round(struct recompress_job *j, uint32_t stride, uint32_t end, uint64_t *replaced)
{
	uint64_t most = min_u64(j->pool ? pool_size(j->pool) : 1, ROUND_MOST);
	struct round r = {.f = j->file,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .landed = PTHREAD_COND_INITIALIZER};
	struct attempt attempts[ROUND_MOST];

	most = min_u64(most, ROUND_BYTES / j->file->chunk_size);
	unsigned n = (unsigned)min_u64(max_u64(most, 1), ceil_div(end - j->next, stride));
	r.left = n;
	for (unsigned i = 0; i < n; i++) {
		attempts[i] = (struct attempt){{attempt_run, NULL}, &r, j->next + i * stride};
		if (j->pool)
			pool_submit(j->pool, &attempts[i].job, POOL_LATER);
		else
			attempt_run(&attempts[i].job);
	}
	pthread_mutex_lock(&r.lock);
	while (r.left)
		pthread_cond_wait(&r.landed, &r.lock);
	pthread_mutex_unlock(&r.lock);
	*replaced += r.replaced;
	if (r.rc == 0)
		j->next += (n - 1) * stride;
	return r.rc;
}

static void set_tight(struct file *f, bool tight)
{
	pthread_rwlock_wrlock(&f->lock);
	frame_set_tight(f->frame, tight);
	pthread_rwlock_unlock(&f->lock);
}

/*
 * Replaced chunks have left gaps: returns their space to the disk, even where the frame by itself
 * would not. 1: done. 0: stopped before the end.
 */
static int finish(struct recompress_job *j, bool waiting)
{
	bool done = false;

	set_tight(j->file, true);
	int rc = waiting ? commit(j->file) : 0;
	while (rc >= 0 && !done && !j->stop(j->ctx)) {
		rc = file_compact(j->file);
		done = rc == 0;
	}
	set_tight(j->file, false);
	return rc < 0 ? rc : done;
}

static int go_through(struct recompress_job *j)
{
	struct file *f = j->file;
	uint32_t n = count(f), stride = 1;
	uint64_t waiting = 0;
	int rc = 0;

	while (j->next < n && !j->stop(j->ctx)) {
		uint64_t before = waiting;
		rc = try_round(j, stride, n, &waiting);
		if (rc < 0)
			break;
		stride = waiting > before ? 1 : (uint32_t)min_u64(2 * stride, STRIDE_MOST);
		j->next = (uint32_t)min_u64((uint64_t)j->next + stride, UINT32_MAX);
		if (waiting >= BATCH) {
			TRY(commit(f)); /* frees the replaced chunks' space for the next ones */
			waiting = 0;
		}
	}
	if (rc >= 0 && j->next >= n && n == count(f))
		return finish(j, waiting);
	if (waiting)
		TRY(commit(f));
	return rc < 0 ? rc : 0;
}

/*
 * True: another program has written the file, and been noticed or not: a change right after our
 * last commit was taken for ours, and the file has our times in place of its own.
 */
static bool was_overtaken(struct file *f)
{
	bool other = file_compare_root(f) == ROOT_OTHER;

	if (other)
		IGNORE(file_reload_changed(f)); /* the next look at it tries again */
	return other;
}

/* False: the mark could not be set. */
static bool leave_mark(struct file *f)
{
	char text[RECOMPRESS_MARK_MAX];
	struct stat st;
	bool left = false;

	pthread_rwlock_wrlock(&f->gate);
	if (!file_changed(f) && stat_fd(f->fd, &st) == 0) {
		times_hold(f->inode, f->fd);
		recompress_mark(&st, text);
		left = fsetxattr(f->fd, RECOMPRESS_MARK, text, strlen(text), 0) == 0;
		times_committed(f->inode, f->fd);
	}
	pthread_rwlock_unlock(&f->gate);
	return left;
}

/* Not while the keeper closes gaps, for which it sets this as well. */
static void set_wary(struct file *f, bool wary)
{
	pthread_rwlock_rdlock(&f->gate);
	(void)file_set_wary_gated(f, wary);
	pthread_rwlock_unlock(&f->gate);
}

int recompress_file(struct recompress_job *j)
{
	set_wary(j->file, true);
	int rc = go_through(j);
	set_wary(j->file, false);
	if (rc <= 0)
		file_take_back(j->file, rc == -ESTALE);
	else
		j->marked = leave_mark(j->file);
	return was_overtaken(j->file) ? -ESTALE : rc;
}
