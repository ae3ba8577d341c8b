/*
 * Chunks in memory that are newer than their frame. All under the lock of their file.
 *
 *   (clean) --dirty_write--> DIRTY --flush_submit--> FLUSHING --landed--> (clean)
 *                              ^                         |
 *                              +------- failed ----------+
 *
 * A chunk that is FLUSHING does not change; a write to it starts a DIRTY one.
 * Of one chunk at most one is DIRTY and one FLUSHING, and DIRTY is the newer.
 *
 * A DIRTY chunk is whole, or it is pages: copies of 4 KiB that lie over the bytes below, which
 * are those of the FLUSHING one, or of the frame. A small write into a stored chunk thus costs
 * its own pages. What is below is met when the worker brings the chunk to the disk; where
 * that can copy the blocks that no page touches as they are stored, it does.
 */
#ifndef FS_DIRTY_H
#define FS_DIRTY_H

#include "base/hash.h"
#include "base/pool.h"
#include "fs/budget.h"
#include "frame/range.h"

#define DIRTY_PAGE 4096u

struct file;

struct dirty_page {
	uint32_t at; /* its first byte in the chunk, a multiple of DIRTY_PAGE */
	uint8_t *p;  /* DIRTY_PAGE bytes; zeros behind the end of the chunk   */
};

struct dirty_chunk {
	struct pool_job job; /* first: the worker gets the chunk by its job */
	struct budget_room room; /* FLUSHING */
	struct file *file;
	uint32_t n;
	/* bytes that came since it is DIRTY: a full chunk's worth is likely all of it */
	uint32_t written;
	uint32_t len;       /* FLUSHING: bytes of the chunk when it was submitted */
	uint64_t turn;      /* likewise: in the order of choices */
	uint64_t file_size; /* likewise, for the policy */
	/* its stored form has another length by now: no root before this is stored */
	bool must;
	bool replaces;      /* FLUSHING: something stored, whose space is free after a commit */
	bool whole;
	/* whole: so many bytes from the first on are those of the stored chunk ...           */
	uint32_t same;
	/* ... at this place of the frame (frame_place), for as long as that is the chunk's   */
	uint64_t below;
	struct buf bytes;   /* whole: what lies behind bytes.n, up to the chunk's end, is zero */
	struct dirty_page *page; /* else: ascending */
	uint32_t npages, page_cap;
	size_t charged;     /* of the budget */
	UT_hash_handle hh;
};

struct dirty {
	struct dirty_chunk *dirty;    /* by n */
	struct dirty_chunk *flushing; /* by n */
};

/* The newest of a chunk, or NULL when the frame has it. */
struct dirty_chunk *dirty_find(const struct dirty *d, uint32_t n);
struct dirty_chunk *dirty_find_flushing(const struct dirty *d, uint32_t n);

/* Bytes [lo, lo + dst.n) of what dirty_find gave. */
NODISCARD int dirty_read(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst);

/*
 * Puts the bytes of a piece into the DIRTY copy of its chunk: `src`, or zeros if that is NULL.
 * `own` is NULL, or the buffer that starts with `src`: if it is as large as the chunk, and the
 * piece too, its memory becomes the chunk's without a copy, and *own is left empty.
 */
NODISCARD int dirty_write(struct file *f, struct piece p, const uint8_t *src, struct buf *own,
			  struct dirty_chunk **out);

/* The DIRTY copy of chunk n, whole. */
NODISCARD int dirty_get_whole(struct file *f, uint32_t n, struct dirty_chunk **out);

/* True: some chunk `must` get to the frame first. */
bool dirty_holds_up(const struct dirty *d);

/* The chunk has got shorter: nothing is kept behind its end. */
void dirty_cut(struct dirty_chunk *c, uint32_t len);

/* True: pages that cover all of a chunk of that length. */
bool dirty_covers(const struct dirty_chunk *c, uint32_t len);

/* True: some page has bytes of [lo, hi). */
bool dirty_touches(const struct dirty_chunk *c, uint32_t lo, uint32_t hi);

/* Copies what the pages have of [lo, lo + dst.n) over what is there. */
void dirty_overlay(const struct dirty_chunk *c, uint32_t lo, struct span dst);

/*
 * What a flush of `c`, in no table, could not bring to the frame is DIRTY again, under what came
 * since. Takes c. False: it is lost, for lack of memory.
 */
NODISCARD bool dirty_put_back_take(struct file *f, struct dirty_chunk *c);

/* Frees a chunk that is in no table. */
void dirty_free(struct file *f, struct dirty_chunk *c);

/* Forgets a DIRTY chunk: its bytes are no longer part of the file. */
void dirty_drop(struct file *f, struct dirty_chunk *c);

/*
 * Shows the bytes that are DIRTY, in no order of chunks: `visit` gets their place in the file, and
 * stops all by a failure. Pages are shown whole as far as the file goes, neighbours one by one.
 */
typedef int dirty_visit(void *arg, uint64_t at, struct view bytes);
NODISCARD int dirty_each_range(struct file *f, dirty_visit *visit, void *arg);

#endif
