/*
 * A frame and its changes.
 *
 *                    frame_resize, frame_put, frame_put_zeros
 *     CLEAN  ------------------------------------------------>  DIRTY
 *       ^                                                       |   ^
 *       | frame_commit: the new root is written                 |   | frame_commit failed:
 *       |                                                       v   | the changes stay pending
 *       +--------------------- COMMITTING <---------------------+---+
 *
 *     any --- a change could not be noted for lack of memory ---> BROKEN
 *
 * CLEAN       index and size are those of the root on disk. If that root is a COMMIT_PART
 *             (`ahead`), the next full commit writes another one all the same.
 * DIRTY       they differ from it: our readers see the changes, other programs do not. Also after
 *             a frame_commit_part that left out the end of the file. Not `ahead`: chunks were only
 *             moved (compact.c).
 * COMMITTING  inside frame_commit only.
 * BROKEN      the index in memory lacks a change that the caller made, so it must never become a
 *             root. All commits fail with -ENOMEM.
 */
#include "frame/commit_impl.h"
#include "frame/era.h"
#include "frame/format/header.h"
#include "frame/format/trailer.h"
#include "frame/frame_impl.h"
#include "frame/held.h"
#include "frame/range.h"

#include <assert.h>
#include <unistd.h>

#define RECLAIM_LEAST (256u << 10)

/* The table in frame_impl.h. */
static void check_disk(const struct frame *f)
{
	assert(!f->recovered || (f->unsynced && f->went_back && !f->latest));
	assert(!f->doubt || f->unsynced || f->suspect);
	assert(!f->suspect || f->doubt || !f->unsynced);
}

void frame_check(const struct frame *f)
{
	assert(f->state != FRAME_COMMITTING);
	assert(f->writable);
	assert(f->index.n == range_nchunks(f->nbytes, f->info.chunk_size));
	assert(f->state != FRAME_CLEAN || f->nbytes == f->info.nbytes);
	assert(f->stale == FRAME_NO_CHUNK || f->stale < f->index.n);
	assert(f->space.end >= (uint64_t)f->info.header_len + f->info.trailer_len);
	check_disk(f);
}

static void drop_copy(struct frame *f)
{
	io_close(f->copy);
	f->copy = NULL;
}

static void set_dirty(struct frame *f)
{
	f->ahead = true;
	if (f->state == FRAME_CLEAN)
		f->state = FRAME_DIRTY;
	drop_copy(f);
}

int frame_new_take(struct frame **out, struct io *io, int dirfd)
{
	struct frame *f = mem_zalloc(sizeof *f);
	if (!f) {
		io_close(io);
		if (dirfd >= 0)
			close(dirfd);
		return -ENOMEM;
	}
	f->io = io;
	f->dirfd = dirfd;
	f->stale = FRAME_NO_CHUNK;
	*out = f;
	return 0;
}

void frame_unload(struct frame *f)
{
	drop_copy(f);
	space_deinit(&f->space);
	meta_deinit(&f->meta);
	meta_deinit(&f->vlmeta);
	buf_free(&f->head);
	buf_free(&f->trailer);
	young_deinit(&f->young);
	mem_free(f->start);
	numbers_deinit(&f->index);
	numbers_deinit(&f->sums);
	numbers_deinit(&f->lengths);
	held_give(f->held);
	/* as new, except for what the search for another root needs */
	*f = (struct frame){.io = f->io, .dirfd = f->dirfd, .went_back = f->went_back};
	f->stale = FRAME_NO_CHUNK;
}

void frame_close(struct frame *f)
{
	if (!f)
		return;
	frame_unload(f);
	io_close(f->io);
	if (f->dirfd >= 0)
		close(f->dirfd);
	mem_free(f);
}

int frame_ready_take(struct frame **out, struct frame *f, int rc)
{
	if (rc < 0) {
		frame_close(f);
		return rc;
	}
	*out = f;
	return 0;
}

int frame_open_take(struct frame **out, struct io *io)
{
	struct frame *f;
	TRY(frame_new_take(&f, io, -1));
	return frame_ready_take(out, f, frame_load(f));
}

/* All bytes of a frame without data: header and trailer. */
static int build_empty(struct frame *f, const struct pipeline *p, uint32_t chunk_size,
		       struct buf *all)
{
	uint8_t bytes[HEADER_EMPTY];
	struct view head = view_of(bytes, sizeof bytes);
	struct header_root root = {.frame_len = HEADER_EMPTY + TRAILER_EMPTY,
				   .type_size = 1,
				   .chunk_size = chunk_size};
	if (p->typesize > 1 && chunk_size % p->typesize == 0)
		root.type_size = p->typesize;
	header_build(bytes, p, chunk_size);
	header_set_root(bytes, &root);
	header_imply_item(bytes, root.type_size);
	TRY(buf_append(all, head));
	TRY(trailer_append(all, &f->vlmeta, view_of(NULL, 0)));
	assert(all->n == root.frame_len);
	return frame_sign_empty(f, head, span_of(all->p + HEADER_EMPTY, TRAILER_EMPTY));
}

static int create(struct frame *f, const struct pipeline *p, uint32_t chunk_size)
{
	struct buf all = {0};
	int rc = build_empty(f, p, chunk_size, &all);
	if (rc == 0)
		rc = io_pwrite(f->io, 0, buf_view(&all));
	if (rc == 0)
		rc = frame_load_made(f, buf_view(&all));
	buf_free(&all);
	TRY(rc);
	f->latest = true;
	f->type_size = p->typesize;
	return 0;
}

int frame_create_take(struct frame **out, struct io *io, const struct pipeline *p,
		      uint32_t chunk_size)
{
	struct frame *f;
	assert(chunk_size > 0 && chunk_size <= CHUNK_MAX_NBYTES);
	TRY(frame_new_take(&f, io, -1));
	return frame_ready_take(out, f, create(f, p, chunk_size));
}

uint64_t frame_max_size(const struct frame *f)
{
	return (uint64_t)f->info.chunk_size * FRAME_MAX_CHUNKS;
}

void frame_set_pipeline(struct frame *f, const struct pipeline *p)
{
	frame_check(f);
	header_set_pipeline(f->head.p, p);
	f->info.pipeline = *p;
	memcpy(f->info.pipeline.meta, header_filter_meta(f->head.p), FILTER_SLOTS);
	f->info.block_size = p->blocksize;
	f->type_size = p->typesize;
	set_dirty(f);
	frame_check(f);
}

bool frame_set_wary(struct frame *f, bool wary)
{
	bool was = f->wary;

	f->wary = wary;
	return was;
}

void frame_set_chunk_size(struct frame *f, uint32_t chunk_size)
{
	assert(f->nbytes == 0 && chunk_size > 0 && chunk_size <= CHUNK_MAX_NBYTES);
	f->info.chunk_size = chunk_size;
	set_dirty(f);
	frame_check(f);
}

/*
 * Notes that the short last chunk has to be put again: after growing, its stored form is too short
 * for its span, after shrinking too long. A hole fits any span; a NaN slot does not, since it would
 * fill new bytes with NaN, and cannot end within an item.
 */
static void note_stale(struct frame *f, uint64_t old, uint64_t now)
{
	uint64_t cut = min_u64(old, now);
	if (f->stale != FRAME_NO_CHUNK && f->stale >= f->index.n)
		f->stale = FRAME_NO_CHUNK;
	if (old == now || range_within(cut, f->info.chunk_size) == 0)
		return;
	uint32_t n = range_chunk(cut, f->info.chunk_size);
	if (frame_is_hole(f, n) || f->stale == n)
		return;
	f->stale = n;
	f->stale_len = (uint32_t)min_u64(old - (uint64_t)n * f->info.chunk_size,
					 f->info.chunk_size);
}

/* Resizes the arrays that go with the index. */
static int resize_beside(struct frame *f, uint32_t n)
{
	TRY(numbers_resize(&f->sums, n));
	return numbers_resize(&f->lengths, n);
}

int frame_resize(struct frame *f, uint64_t nbytes)
{
	frame_check(f);
	if (nbytes > frame_max_size(f))
		return -EFBIG;
	uint32_t n = (uint32_t)range_nchunks(nbytes, f->info.chunk_size);
	uint64_t old = f->nbytes;
	uint32_t was = f->index.n;
	TRY(resize_beside(f, (uint32_t)max_u64(n, was)));
	frame_space_drop_from(f, n);
	int rc = numbers_resize(&f->index, n);
	IGNORE(resize_beside(f, f->index.n)); /* only ever shrinks */
	TRY(rc);
	f->nbytes = nbytes;
	f->kept = min_u64(f->kept, nbytes);
	note_stale(f, old, nbytes);
	if (nbytes != old)
		set_dirty(f);
	frame_check(f);
	return 0;
}

/*
 * Syncs before chunk n is written, if many bytes wait only for the root on disk to become durable:
 * those after an empty root, left by truncation; or the gaps in a file that is rewritten each time
 * it is opened. Such a file has no commit before its first chunk, and would grow with each opening.
 * If the sync fails, the bytes go on waiting. If it succeeds, the tail after the root is cut off:
 * otherwise the next opening would find it, and sync again.
 */
static void reclaim(struct frame *f, uint32_t n)
{
	frame_space_survey_for(f, n);
	bool much = f->info.nbytes ? frame_space_outgrown(f) : f->space.nwaiting >= RECLAIM_LEAST;

	if (!much || !f->unsynced || f->doubt || f->suspect || f->recovered ||
	    space_is_busy(&f->space))
		return;
	if (commit_sync(f) < 0)
		return;
	f->changed = true; /* it is about to be */
	frame_disk_trim(f);
}

int frame_reserve_put(struct frame *f)
{
	uint32_t n = f->space.nlent + 1;
	TRY(numbers_reserve(&f->index, n));
	return numbers_reserve(&f->sums, n);
}

int frame_alloc(struct frame *f, uint32_t n, uint32_t len, struct frame_place *p)
{
	frame_check(f);
	assert(len >= CHUNK_HEAD);
	reclaim(f, n);
	TRY(frame_reserve_put(f));
	*p = (struct frame_place){.len = len, .epoch = era_now()};
	TRY(space_take(&f->space, len, &p->at));
	int rc = frame_disk_reserve(f, n, p);
	if (rc < 0)
		space_give(&f->space, p->at, p->len);
	frame_check(f);
	return rc;
}

void frame_unalloc(struct frame *f, const struct frame_place *p)
{
	frame_check(f);
	space_give(&f->space, p->at, p->len);
	frame_check(f);
}

int frame_write(struct frame *f, struct frame_place *p, struct view cchunk)
{
	assert(f->writable && cchunk.n == p->len);
	TRY(io_pwrite(f->io, p->at, cchunk));
	p->sum = chunk_sum_make(cchunk);
	return 0;
}

/* The chunk's previous place has been dropped. */
static void set_entry(struct frame *f, uint32_t n, uint64_t entry)
{
	if (!numbers_set(&f->index, n, entry))
		f->state = FRAME_BROKEN;
	if (f->stale == n)
		f->stale = FRAME_NO_CHUNK;
	set_dirty(f);
}

void frame_put(struct frame *f, uint32_t n, const struct frame_place *p)
{
	frame_check(f);
	assert(n < f->index.n);
	assert(p->at >= f->info.header_len);
	space_put(&f->space, p->at, p->len);
	f->firm = max_u64(f->firm, p->at + p->len);
	frame_space_drop(f, n);
	frame_sums_note(f, n, p->sum);
	frame_space_note(f, n, p->len);
	young_add(&f->young, n, p->len, p->epoch);
	f->young.bare |= !frame_sum(f, n);
	set_entry(f, n, p->at - f->info.header_len);
	frame_check(f);
}

void frame_put_zeros(struct frame *f, uint32_t n)
{
	frame_check(f);
	assert(n < f->index.n);
	frame_space_drop(f, n);
	set_entry(f, n, ENTRY_ZEROS);
	frame_check(f);
}
