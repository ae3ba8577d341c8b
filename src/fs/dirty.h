/*
 * Chunks in memory that are newer than their frame. All under the lock of their file.
 *
 *   (clean) --dirty_get--> DIRTY --flush_submit--> FLUSHING --landed--> (clean)
 *                            ^                         |
 *                            +------- failed ----------+
 *
 * A chunk that is FLUSHING does not change; a write to it starts a DIRTY copy.
 * Of one chunk at most one is DIRTY and one FLUSHING, and DIRTY is the newer.
 *
 * A small write into a stored chunk makes it dirty in part: only the blocks that were
 * touched are here, the others are still those of the frame, and when it
 * is flushed their compressed bytes are copied as they are.
 */
#ifndef FS_DIRTY_H
#define FS_DIRTY_H

#include "base/hash.h"
#include "base/pool.h"

struct file;

struct dirty_chunk {
	struct pool_job job; /* first: the worker gets the chunk by its job */
	struct file *file;
	uint32_t n;
	uint32_t written;   /* bytes that came since it is DIRTY: a full chunk's worth is likely all of it */
	uint64_t file_size; /* FLUSHING: when it was submitted, for the policy */
	struct buf bytes;   /* what lies behind bytes.n, up to the chunk's end, is zero */
	size_t charged;     /* of the budget */
	bool *have;         /* dirty in part: which blocks are here; NULL: all of it is */
	uint32_t blocksize; /* of those */
	UT_hash_handle hh;
};

struct dirty {
	struct dirty_chunk *dirty;    /* by n */
	struct dirty_chunk *flushing; /* by n */
};

/* The newest bytes of a chunk, or NULL when the frame has them. */
struct dirty_chunk *dirty_find(const struct dirty *d, uint32_t n);
struct dirty_chunk *dirty_find_flushing(const struct dirty *d, uint32_t n);

/* Bytes [lo, lo + dst.n) of what dirty_find gave. */
NODISCARD int dirty_read(struct file *f, const struct dirty_chunk *c, uint32_t lo, struct span dst);

/*
 * The DIRTY copy of chunk n, to be changed in [lo, hi) by the caller, at least hi bytes
 * long. A new one gets the chunk's present bytes, unless [lo, hi) covers them all.
 */
NODISCARD int dirty_get(struct file *f, uint32_t n, uint32_t lo, uint32_t hi,
			struct dirty_chunk **out);

/* The DIRTY copy of chunk n with all of its bytes. */
NODISCARD int dirty_get_whole(struct file *f, uint32_t n, struct dirty_chunk **out);

/* Fills with zeros up to `len` bytes. */
NODISCARD int dirty_pad(struct file *f, struct dirty_chunk *c, uint32_t len);

/* Frees a chunk that is in no table any more. */
void dirty_free(struct file *f, struct dirty_chunk *c);

/* Forgets a DIRTY chunk: its bytes are no longer part of the file. */
void dirty_drop(struct file *f, struct dirty_chunk *c);

#endif
