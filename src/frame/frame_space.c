/*
 * Which bytes of a frame are garbage. What this process frees, it knows. Garbage that existed when
 * the frame was opened is found by a *survey*: it is the gaps between all chunks, whose lengths are
 * in their headers. The survey is done before the first chunk is written, which may thus go into a
 * gap. If there are many chunks, it is put off until one of the existing chunks is replaced, so
 * files that only grow never pay for it.
 */
#include "frame/frame_impl.h"

#include <assert.h>
#include <stdlib.h>

#define MAX_SURVEY (1u << 20)  /* chunks; each costs a read of 16 bytes */
#define SMALL_SURVEY 64u       /* chunks; so few are always surveyed */

/* A commit syncs if more bytes than this wait, and more than this share of the live bytes. */
#define PRESS_LEAST (1u << 20)
#define PRESS_SHARE 16

/*
 * If more bytes than this wait for the root on disk to become durable, and more than half of what
 * that root uses, a sync is worth it before the file grows.
 */
#define OUTGROWN_LEAST (64u << 10)

#define LENGTH_NONE NUMBER_NEW /* unknown: the chunk is never freed */

/* Where a chunk lies. */
struct stretch {
	uint64_t at;
	uint32_t len, n; /* n: chunk number */
};

void frame_space_open(struct frame *f, uint64_t file_len)
{
	const struct frame_info *info = &f->info;
	space_init(&f->space, max_u64(info->frame_len, file_len));
	f->firm = f->space.end;
	/*
	 * A tail left by a truncation, a crash or another program: a root on disk may still need
	 * it.
	 */
	space_retire(&f->space, info->frame_len, f->space.end - info->frame_len);
	space_pass(&f->space);
	f->survey = info->nbytes ? SURVEY_NOT_YET : SURVEY_DONE;
	f->area = info->nbytes ? info->header_len + info->cbytes : frame_front_end(f);
}

void frame_space_retire(struct frame *f, uint64_t at, uint64_t end)
{
	at = max_u64(at, frame_front_end(f));
	if (at < end)
		space_retire(&f->space, at, end - at);
}

/* The length of the chunk at `at`. -EBADMSG also if it ends after `end`. */
static int length_at(const struct frame *f, uint64_t at, uint64_t end, uint32_t *len)
{
	struct stored st = {.io = f->io, .at = at, .room = at < end ? end - at : 0};
	return stored_length(&st, len);
}

static int compare_stretches(const void *a, const void *b)
{
	uint64_t x = ((const struct stretch *)a)->at, y = ((const struct stretch *)b)->at;
	return (x > y) - (x < y);
}

/*
 * Lists the chunks that were there when the frame was opened, by place. -EFBIG: too many, or they
 * overlap.
 */
static int collect(struct frame *f, struct stretch *list, uint32_t *n)
{
	*n = 0;
	for (uint32_t i = 0; (i = index_next_stored(&f->index, i)) < f->index.n; i++) {
		uint64_t at = f->info.header_len + numbers_get(&f->index, i);
		if (at >= f->area)
			continue;
		if (*n == MAX_SURVEY)
			return -EFBIG;
		list[(*n)++] = (struct stretch){.at = at, .n = i};
	}
	qsort(list, *n, sizeof *list, compare_stretches);
	uint64_t end = f->info.header_len;
	for (uint32_t i = 0; i < *n; i++) {
		uint32_t len;
		TRY(length_at(f, list[i].at, f->area, &len));
		list[i].len = len;
		if (list[i].at < end) /* shared bytes are legal, but whose are they? */
			return -EFBIG;
		end = list[i].at + len;
	}
	return 0;
}

/* Makes a gap between chunks of the root on disk wait: an older root may refer to it. */
static void let_gap_wait(struct frame *f, uint64_t at, uint64_t end)
{
	at = max_u64(at, frame_front_end(f));
	if (at < end)
		space_wait(&f->space, at, end - at);
}

/*
 * Lengths are kept, not read again: what is freed must be what was handed out, or what the survey
 * has found, even if the chunk's header has been damaged since. Too large a length would free its
 * neighbours, too.
 */
void frame_space_note(struct frame *f, uint32_t n, uint32_t len)
{
	/* If memory is short, it stays unknown, as with checksums (frame_sums_note). */
	if (!numbers_set(&f->lengths, n, len))
		assert(numbers_get(&f->lengths, n) == LENGTH_NONE);
}

/* Frees every gap between chunks. A failure only costs space. */
void frame_space_survey(struct frame *f)
{
	uint32_t n;
	if (f->survey != SURVEY_NOT_YET)
		return;
	struct stretch *list = mem_zalloc_array(min_u64(f->index.n, MAX_SURVEY), sizeof *list);
	f->survey = SURVEY_IMPOSSIBLE;
	if (list && collect(f, list, &n) == 0) {
		uint64_t end = f->info.header_len;
		for (uint32_t i = 0; i < n; i++) {
			frame_space_note(f, list[i].n, list[i].len);
			let_gap_wait(f, end, list[i].at);
			end = list[i].at + list[i].len;
		}
		let_gap_wait(f, end, f->area);
		f->survey = SURVEY_DONE;
		if (!f->unsynced && !f->suspect) /* the root on disk is durable already */
			space_durable(&f->space);
	}
	mem_free(list);
}

static void survey_small(struct frame *f)
{
	if (f->index.n <= SMALL_SURVEY)
		frame_space_survey(f);
}

/* True: the chunk has been there since the frame was opened. */
static bool is_old(const struct frame *f, uint32_t n)
{
	uint64_t entry = n < f->index.n ? numbers_get(&f->index, n) : ENTRY_SPECIAL;
	return entry_is_stored(entry) && f->info.header_len + entry < f->area;
}

void frame_space_survey_for(struct frame *f, uint32_t n)
{
	if (is_old(f, n)) /* frame_space_drop would, too, but after the new chunk has its place */
		frame_space_survey(f);
	else
		survey_small(f);
}

void frame_space_drop(struct frame *f, uint32_t n)
{
	uint64_t entry = numbers_get(&f->index, n), at = f->info.header_len + entry;
	if (!entry_is_stored(entry) || space_drop(&f->space, at))
		return;
	if (at < f->area)
		frame_space_survey(f);
	uint64_t len = numbers_get(&f->lengths, n);
	if (len != LENGTH_NONE)
		frame_space_retire(f, at, at + len);
}

void frame_space_drop_from(struct frame *f, uint32_t first)
{
	if (first == 0) /* so that gaps can be used before the dropped chunks are free */
		survey_small(f);
	bool all = first == 0 && f->survey != SURVEY_DONE;
	for (uint32_t i = first; (i = index_next_stored(&f->index, i)) < f->index.n; i++)
		if (!all || !is_old(f, i))
			frame_space_drop(f, i);
	if (all) { /* none of the chunks that were there at open is left */
		frame_space_retire(f, f->info.header_len, f->area);
		f->survey = SURVEY_DONE;
	}
}

int frame_live_end(struct frame *f, const struct numbers *ix, uint64_t *end)
{
	uint64_t last = 0; /* offset of the last chunk; 0: none */
	uint32_t len = 0;
	*end = frame_front_end(f);
	if (f->survey != SURVEY_DONE)
		*end = max_u64(*end, f->area);
	for (uint32_t i = 0; (i = index_next_stored(ix, i)) < ix->n; i++)
		last = max_u64(last, f->info.header_len + numbers_get(ix, i));
	if (last < *end)
		return 0;
	uint64_t busy = space_busy_length(&f->space, last);
	if (busy) { /* written since the last commit */
		*end = last + busy;
		return 0;
	}
	int rc = length_at(f, last, f->space.end, &len);
	if (rc < 0 && rc != -EBADMSG)
		return rc;
	/* a damaged chunk must not keep the others from being written */
	*end = rc < 0 ? f->space.end : last + len;
	return 0;
}

uint64_t frame_space_live(const struct frame *f)
{
	const struct space *sp = &f->space;
	uint64_t idle = f->info.header_len + space_unused(sp);
	return sp->end > idle ? sp->end - idle : 0;
}

static bool is_pressing(const struct frame *f, uint64_t waiting)
{
	return waiting > max_u64(PRESS_LEAST, frame_space_live(f) / PRESS_SHARE);
}

bool frame_space_outgrown(const struct frame *f)
{
	uint64_t in_use = frame_space_live(f) + f->space.nretired;
	return f->space.nwaiting > max_u64(OUTGROWN_LEAST, in_use / 2);
}

bool frame_space_wants_sync(const struct frame *f)
{
	return is_pressing(f, f->space.nwaiting);
}

bool frame_wants_commit(const struct frame *f)
{
	return f->writable && is_pressing(f, f->space.nwaiting + f->space.nretired);
}

bool frame_waits(const struct frame *f)
{
	return f->space.nwaiting + f->space.nretired > 0;
}

void frame_space_durable(struct frame *f)
{
	space_durable(&f->space);
	if (f->state == FRAME_CLEAN && f->info.nbytes == 0 && f->nbytes == 0 &&
	    !space_is_busy(&f->space)) {
		space_cut(&f->space, f->info.frame_len);
		f->area = frame_front_end(f);
		f->survey = SURVEY_DONE;
	}
}
