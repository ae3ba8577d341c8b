/*
 * Chunks in memory that are newer than their frame. All of it is under the lock of their file.
 *
 *   (clean) --dirty_write--> DIRTY --submitted--> FLUSHING --landed--> (clean)
 *                              ^                     |
 *                              +------ failed -------+
 *
 * The FLUSHING copy of a chunk does not change; a write to the chunk starts a DIRTY copy, which is
 * newer. There is at most one of each.
 *
 * A DIRTY copy is either whole, or it consists of pages of 4 KiB, which lie over older bytes: those
 * of the FLUSHING copy or of the frame. So a small write into a stored chunk takes only the memory
 * of its pages. The worker that stores the chunk puts the pages over the older bytes, and copies
 * blocks that no page touches in their stored form. What the frame has may be shorter than the
 * chunk has become (frame_stored_len): then zeros follow it.
 */
#ifndef FS_DIRTY_DIRTY_H
#define FS_DIRTY_DIRTY_H

#include "base/buf.h"
#include "base/pool.h"
#include "frame/range.h"
#include "fs/dirty/budget.h"
#include "fs/dirty/pages.h"
#include "fs/dirty/set.h"

struct file;

struct dirty_chunk {
	struct pool_job job;
	struct file *file;
	uint32_t n; /* the chunk's number in the file */
	/*
	 * What the frame has of the chunk no longer fits the file: it has a wrong length, or was
	 * made a hole to free its space (file/refit.c). There is no commit before this copy is
	 * stored.
	 */
	bool must_store;
	bool whole; /* the content is in `bytes`, else in `pages` */
	/*
	 * The chunk from its start; any missing part at its end is zeros. If not whole: empty, but
	 * with room for what dirty_put_back_take may have to put there.
	 */
	struct buf bytes;
	struct dirty_pages pages;
	/*
	 * Of a whole copy, its first bytes, if they are still those of the stored chunk with this
	 * checksum in the root.
	 */
	struct {
		uint32_t n; /* 0: they are not */
		uint64_t sum;
	} kept;
	uint32_t written; /* since it became DIRTY; counts repeated bytes, for flush_if_full */
	size_t charged;   /* bytes counted in the budget                                     */

	/* Set when the chunk becomes FLUSHING. */
	uint32_t len;       /* decoded bytes of the chunk, then                            */
	uint64_t turn;      /* its turn to choose a pipeline (policy_turn)                 */
	uint64_t file_size; /* then, for the policy                                        */
	bool replaces;      /* it replaces a stored chunk, whose space a commit will free  */
	struct budget_buffers buffers;

	struct treap_node in_set; /* f->dirty.dirty or f->dirty.flushing */
};

struct dirty {
	struct dirty_set dirty, flushing;
	unsigned replacing; /* how many of `flushing` replace a stored chunk                   */
	uint32_t next; /* the chunk for which full ones after it wait (flush_if_full)     */
	uint32_t held; /* how many wait, at most: some may have been dropped or cut       */
};

/*
 * dirty_find: the newest copy of chunk n in memory; dirty_find_flushing: the FLUSHING one. Else
 * NULL.
 */
struct dirty_chunk *dirty_find(const struct dirty *d, uint32_t n);
struct dirty_chunk *dirty_find_flushing(const struct dirty *d, uint32_t n);

/* Reads bytes [lo, lo + dst.n) of the chunk from this copy, and from what lies below its pages. */
NODISCARD int dirty_read(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst);

/*
 * Writes a piece to the DIRTY copy of its chunk: the bytes at `src`, or zeros if that is NULL. It
 * may fail after the first pages: then p->hi becomes the end of what was written.
 *
 * `own` is NULL, or the buffer that begins with `src`: if both it and the piece are as large as the
 * chunk, its memory becomes the chunk's without a copy, and *own is left empty. *out, here and
 * below: the DIRTY copy; not to be used after a failure.
 */
NODISCARD int dirty_write(struct file *f, struct piece *p, const uint8_t *src, struct buf *own,
			  struct dirty_chunk **out);

/*
 * Gets the DIRTY copy of chunk n; makes one without pages if there is none. NULL: out of memory.
 * dirty_get_whole makes it whole, too.
 */
struct dirty_chunk *dirty_get(struct file *f, uint32_t n);
NODISCARD int dirty_get_whole(struct file *f, uint32_t n, struct dirty_chunk **out);

/*
 * True: the FLUSHING chunk was cut off, or has changed its length since it was submitted. If it is
 * still part of the file, there is a newer copy.
 */
bool dirty_is_outdated(const struct file *f, const struct dirty_chunk *c);

/* True: the chunk that is stored now is the one of `kept`. */
bool dirty_has_kept(const struct file *f, const struct dirty_chunk *c);

/* True: there is a chunk that has to be stored before the next commit (must_store). */
bool dirty_holds_up(const struct dirty *d);

/*
 * The first chunk from `from` on that waits in memory and in whose place a reader of the frame on
 * disk would see zeros, since no commit has shown any bytes there yet; UINT32_MAX: there is none.
 */
uint32_t dirty_first_unshown(const struct file *f, uint32_t from);

/* Cuts the chunk to `len` bytes. */
void dirty_cut(struct dirty_chunk *c, uint32_t len);

/*
 * Makes a copy that could not be stored DIRTY again, below what was written since. Takes `c`, which
 * is in no set. Cannot fail: the memory for it was allocated along with what was written since.
 */
void dirty_put_back_take(struct file *f, struct dirty_chunk *c);

/*
 * Frees a chunk that is in no set. dirty_free_stored: one whose bytes the frame has now; under the
 * lock.
 */
void dirty_free(struct file *f, struct dirty_chunk *c);
void dirty_free_stored(struct file *f, struct dirty_chunk *c);

/* Drops a DIRTY chunk, whose bytes are no longer part of the file. */
void dirty_drop(struct file *f, struct dirty_chunk *c);

#endif
