/*
 * The index of a frame: where each chunk is. An entry is the offset of a stored chunk from the end
 * of the header (in a sparse frame, the number of its file), or a special value, with bit 63 set.
 * FORMAT.md 9.3. In memory it is one of `numbers`; on the disk, a chunk.
 */
#ifndef FRAME_INDEX_H
#define FRAME_INDEX_H

#include "base/buf.h"
#include "codec/chunk.h"
#include "codec/scratch.h"
#include "frame/numbers.h"
#include "frame/stored.h"

#define INDEX_MAX_CHUNKS (CHUNK_MAX_NBYTES / 8) /* the entries that one chunk can hold */

/* Special values: the kind is in three bits; the bits below them have no meaning. */
enum entry_kind { ENTRY_KIND_ZEROS = 1, ENTRY_KIND_NAN = 2, ENTRY_KIND_UNINIT = 4 };

#define ENTRY_KIND_SHIFT 56
#define ENTRY_KIND(entry) ((unsigned)((entry) >> ENTRY_KIND_SHIFT) & 7)
#define ENTRY_SPECIAL (1ull << 63)
#define ENTRY_OF_KIND(kind) (ENTRY_SPECIAL | (uint64_t)(kind) << ENTRY_KIND_SHIFT)
#define ENTRY_ZEROS ENTRY_OF_KIND(ENTRY_KIND_ZEROS)
#define ENTRY_NAN ENTRY_OF_KIND(ENTRY_KIND_NAN)
#define ENTRY_UNINIT ENTRY_OF_KIND(ENTRY_KIND_UNINIT)

_Static_assert(ENTRY_ZEROS == NUMBER_NEW, "a new chunk is a hole");

/* True: not a special value, but the place of a stored chunk. */
static inline bool entry_is_stored(uint64_t entry)
{
	return !(entry & ENTRY_SPECIAL);
}

/* The first entry from i on that is a stored chunk, or ix->n. */
uint32_t index_next_stored(const struct numbers *ix, uint32_t i);

/* How many entries are stored chunks. */
uint32_t index_count_stored(const struct numbers *ix);

/* Which entries are legal. */
struct index_rule {
	uint64_t last;   /* the largest offset of a stored chunk             */
	uint64_t most;   /* bytes that a compressed index may decode to      */
	bool special;    /* special values are allowed                       */
};

/*
 * Reads the index chunk at `at`, which must hold exactly `n` entries, or any number if n is
 * INDEX_ANY. *ix must be zeroed; call numbers_deinit on it even if this fails. -EBADMSG: an entry
 * breaks `rule`, or the chunk is damaged. -ENOTSUP: it decodes to more than rule.most. -E2BIG: more
 * than the scratch's bound. -ENOMEM also means beyond the bound of held.h, if ix->loading is set.
 */
#define INDEX_ANY UINT32_MAX
NODISCARD int index_load(struct numbers *ix, const struct stored *at, uint32_t n,
			 struct index_rule rule, struct scratch *s);

/* Encodes the index as a chunk. Pages whose entries have become equal are folded in passing. */
NODISCARD int index_encode(struct numbers *ix, struct buf *out);

#endif
