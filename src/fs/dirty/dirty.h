/*
 * Chunks in memory that are newer than their frame. All under the lock of their file.
 *
 *   (clean) --dirty_write--> DIRTY --flush_submit--> FLUSHING --landed--> (clean)
 *                              ^                         |
 *                              +------- failed ----------+
 *
 * A FLUSHING copy of a chunk does not change; a write to the chunk starts a DIRTY one, which is
 * newer. There is at most one of each.
 *
 * A DIRTY copy is whole, or it consists of pages: 4 KiB each, which lie over older bytes, those of
 * the FLUSHING copy or of the frame. So a small write into a stored chunk takes the memory of its
 * pages only. The worker that stores the chunk puts them over the older bytes, and copies blocks
 * that no page touches as they are stored.
 */
#ifndef FS_DIRTY_DIRTY_H
#define FS_DIRTY_DIRTY_H

#include "base/buf.h"
#include "base/pool.h"
#include "frame/range.h"
#include "fs/dirty/budget.h"
#include "fs/dirty/set.h"

#define DIRTY_PAGE 4096u

struct file;

struct dirty_page {
	uint32_t at; /* its first byte in the chunk, a multiple of DIRTY_PAGE */
	uint8_t *p;  /* DIRTY_PAGE bytes; zeros behind the end of the chunk   */
};

struct dirty_chunk {
	struct pool_job job; /* first: the worker gets the chunk by its job */
	struct file *file;
	uint32_t n;          /* of the chunk */

	/*
	 * Bytes that were written to the DIRTY copy, repeated ones included: when as many came as
	 * the chunk has, it is likely complete.
	 */
	uint32_t written;
	/* The stored chunk has another length than the chunk: no commit before this is stored. */
	bool must;
	bool whole;              /* `bytes` has the content; else `page`                       */
	/*
	 * The chunk from its start; what is missing at its end is zero. Not whole: empty, but with
	 * room for what dirty_put_back_take may have to put there.
	 */
	struct buf bytes;
	struct dirty_page *page; /* in ascending order                                         */
	uint32_t npages, page_cap;
	/*
	 * If whole: the first `same` bytes are those of the stored chunk, as long as that is at
	 * the place `below` of the frame (frame_place).
	 */
	uint32_t same;
	uint64_t below;
	size_t charged;          /* bytes that are counted in the budget                       */

	/* FLUSHING: as of when the chunk was submitted */
	uint32_t len;            /* decoded bytes of the chunk                                 */
	uint64_t turn;           /* policy_turn                                                */
	uint64_t file_size;      /* for the policy                                             */
	bool replaces;           /* a stored chunk, whose space a commit will free             */
	struct budget_buffers buffers;
	struct dirty_chunk *left, *right; /* of the set that it is in */
};

struct dirty {
	struct dirty_set dirty, flushing;
	uint32_t next; /* the chunk that full ones behind it wait for (flush_submit_full) */
	uint32_t held; /* how many do, or fewer: some may have been dropped or cut        */
};

/* The newest copy of chunk n; NULL: the frame has it. */
struct dirty_chunk *dirty_find(const struct dirty *d, uint32_t n);
struct dirty_chunk *dirty_find_flushing(const struct dirty *d, uint32_t n);

/* Reads bytes [lo, lo + dst.n) of the chunk, from this copy and what is below it. */
NODISCARD int dirty_read(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst);

/*
 * Puts the bytes of a piece into the DIRTY copy of its chunk: `src`, or zeros if that is NULL.
 * `own` is NULL, or the buffer that starts with `src`: if it is as large as the chunk, and the
 * piece too, its memory becomes the chunk's without a copy, and *own is left empty.
 */
NODISCARD int dirty_write(struct file *f, struct piece p, const uint8_t *src, struct buf *own,
			  struct dirty_chunk **out);

/* The DIRTY copy of chunk n, made if there is none, and made whole. */
NODISCARD int dirty_get_whole(struct file *f, uint32_t n, struct dirty_chunk **out);

/*
 * True: a FLUSHING chunk has been cut, or has another length than when it was submitted. There is a
 * newer copy of it, if it is still part of the file.
 */
bool dirty_is_outdated(const struct file *f, const struct dirty_chunk *c);

/* True: there is a chunk that `must` be stored before the next commit. */
bool dirty_holds_up(const struct dirty *d);

/*
 * The first chunk from `from` on that waits here while readers of the frame on disk would see zeros
 * in its place, or part of it: no commit has shown bytes of it yet. UINT32_MAX: there is none.
 */
uint32_t dirty_first_unshown(const struct file *f, uint32_t from);

/* The chunk has been cut to `len` bytes: drops what lies behind. */
void dirty_cut(struct dirty_chunk *c, uint32_t len);

/* True: the pages cover all of a chunk of `len` bytes. */
bool dirty_covers(const struct dirty_chunk *c, uint32_t len);

/* True: some page has bytes of [lo, hi). */
bool dirty_touches(const struct dirty_chunk *c, uint32_t lo, uint32_t hi);

/* Copies what the pages have of [lo, lo + dst.n) over what is there. */
void dirty_overlay(const struct dirty_chunk *c, uint32_t lo, struct span dst);

/*
 * Makes a copy that could not be stored DIRTY again, below what was written since. `c` is in no
 * set, and taken. Memory that takes was got when that was written.
 */
void dirty_put_back_take(struct file *f, struct dirty_chunk *c);

/* Frees a chunk that is in no set. */
void dirty_free(struct file *f, struct dirty_chunk *c);

/* Forgets a DIRTY chunk: its bytes are no longer part of the file. */
void dirty_drop(struct file *f, struct dirty_chunk *c);

#endif
