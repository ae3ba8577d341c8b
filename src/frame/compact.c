/*
 * Compaction: moves the last chunks of the file into gaps before them, a few at a time. A moved
 * chunk is treated exactly like a replaced one: its old place waits for a durable root.
 */
#include "frame/era.h"
#include "frame/frame_impl.h"

#define BATCH 64 /* at most this many chunks are moved per call */

/* A file is compacted when more than this share of it is free: a third, or a 32nd. */
#define SHARE 3
#define SHARE_TIGHT 32

/* With more chunks, searching for gaps would keep readers waiting for too long. */
#define TIGHT_SURVEY (1u << 16)

/* A chunk to be moved: its offset from the end of the header, and its number. */
struct move {
	uint64_t at;
	uint32_t n;
};

/* The last chunks in the file, the very last one first. */
struct last {
	struct move list[BATCH];
	uint32_t n;
};

static void enter(struct last *l, struct move m)
{
	if (!entry_is_stored(m.at) || (l->n == BATCH && m.at <= l->list[BATCH - 1].at))
		return;
	uint32_t k = l->n < BATCH ? l->n++ : BATCH - 1;
	for (; k > 0 && l->list[k - 1].at < m.at; k--)
		l->list[k] = l->list[k - 1];
	l->list[k] = m;
}

/*
 * Goes backwards: mostly, the last chunks of the index are also the last ones in the file. Pages of
 * holes are skipped, of which a file of a few KB may have thousands.
 */
static void find_last(const struct frame *f, struct last *l)
{
	for (uint32_t end = f->index.n, at; end > 0; end = at) {
		at = (end - 1) / NUMBERS_PAGE * NUMBERS_PAGE;
		struct numbers_run r = numbers_run(&f->index, at);
		if (!r.slot && !entry_is_stored(r.same))
			continue;
		for (uint32_t i = end; i-- > at;)
			enter(l, (struct move){r.slot ? r.slot[i - at] : r.same, i});
	}
}

/* Moves a chunk. *moved: its stored bytes; 0: there is no gap for it. */
static int move(struct frame *f, const struct move *m, uint32_t *moved)
{
	struct stored st;
	struct frame_place p = {.epoch = era_now()};
	*moved = 0;
	TRY(frame_stored(f, m->n, &st));
	TRY(stored_length(&st, &p.len));
	TRY(frame_reserve_put(f));
	int rc = space_take_below(&f->space, p.len, st.at, &p.at);
	if (rc < 0)
		return rc == -ENOSPC ? 0 : rc;
	rc = frame_copy_chunk(f, m->n, &p);
	if (rc < 0) {
		space_give(&f->space, p.at, p.len);
		return rc;
	}
	frame_put(f, m->n, &p);
	*moved = p.len;
	return 0;
}

static bool too_much(const struct frame *f, uint64_t nfree)
{
	return nfree > (f->space.end - f->info.header_len) / (f->tight ? SHARE_TIGHT : SHARE);
}

/*
 * True: most of what the file uses is holes of the file system. Moving chunks would fill them, and
 * a file of a few KB may claim any number of chunks.
 */
static bool is_of_holes(const struct frame *f)
{
	const struct space *sp = &f->space;
	uint64_t used = sp->end - min_u64(sp->end, space_unused(sp));
	return io_taken(f->io) < used / 2;
}

bool frame_wants_compact(const struct frame *f)
{
	return f->writable && f->state != FRAME_BROKEN && f->survey == SURVEY_DONE &&
	       too_much(f, space_unused(&f->space));
}

void frame_set_tight(struct frame *f, bool tight)
{
	f->tight = tight;
	if (tight && f->writable && f->index.n <= TIGHT_SURVEY)
		frame_space_survey(f);
}

/*
 * After the last chunks have moved, index and trailer are still beyond the chunks' old places,
 * which then waited for a durable root. True: they are still there, and there is ample room after
 * the last chunk, so a commit would put them closer to it.
 */
static bool root_can_move(struct frame *f)
{
	uint64_t end, at = f->info.header_len + f->info.cbytes, len = f->info.frame_len - at;
	return frame_live_end(f, &f->index, &end) == 0 &&
	       space_fits_between(&f->space, 4 * len, end, at);
}

/* Moves the last chunks that fit into gaps, about `step` bytes. *done: how many bytes it moved. */
static int move_last(struct frame *f, uint64_t step, uint64_t *done)
{
	struct last *l = mem_zalloc(sizeof *l);
	bool ahead = f->ahead;
	int rc = 0;
	if (!l)
		return -ENOMEM;
	find_last(f, l);
	for (uint32_t i = 0; rc == 0 && i < l->n && *done < step; i++) {
		uint32_t moved;
		if (l->list[i].n == f->stale)
			continue; /* the caller is about to rewrite it */
		rc = move(f, &l->list[i], &moved);
		*done += moved;
	}
	mem_free(l);
	f->ahead = ahead; /* the data is unchanged */
	return rc;
}

int frame_compact(struct frame *f, uint64_t step)
{
	uint64_t done = 0;
	if (!f->writable || f->state == FRAME_BROKEN)
		return 0;
	frame_space_survey(f);
	if (!too_much(f, f->space.nfree) || is_of_holes(f))
		return 0;
	TRY(move_last(f, step, &done));
	if (done)
		return 1;
	if (f->state != FRAME_CLEAN || !root_can_move(f))
		return 0;
	f->state = FRAME_DIRTY;
	return 1;
}
