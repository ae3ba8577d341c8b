/*
 * The index of a frame: where each chunk is. An entry is the offset of a stored chunk from the end
 * of the header (in a sparse frame, the number of its file), or a special value, with bit 63 set.
 * FORMAT.md 9.3.
 *
 * In memory it is divided into pages of INDEX_PAGE entries. A page whose entries are all equal is
 * *folded* into that one number. So a million holes, or a few bytes on disk that claim to be a
 * quarter of a billion chunks, take next to no memory.
 */
#ifndef FRAME_INDEX_H
#define FRAME_INDEX_H

#include "base/buf.h"
#include "codec/chunk.h"
#include "codec/scratch.h"
#include "frame/stored.h"

#define INDEX_PAGE 4096u
#define INDEX_SMALL 512u             /* an index of so few entries is not folded */
#define INDEX_MAX_CHUNKS (CHUNK_MAX_NBYTES / 8) /* as many entries as one chunk can hold */

/* Special values: the kind is in three bits, the bits below them mean nothing. */
enum entry_kind { ENTRY_KIND_ZEROS = 1, ENTRY_KIND_NAN = 2, ENTRY_KIND_UNINIT = 4 };

#define ENTRY_KIND_SHIFT 56
#define ENTRY_KIND(entry) ((unsigned)((entry) >> ENTRY_KIND_SHIFT) & 7)
#define ENTRY_SPECIAL (1ull << 63)
#define ENTRY_OF_KIND(kind) (ENTRY_SPECIAL | (uint64_t)(kind) << ENTRY_KIND_SHIFT)
#define ENTRY_ZEROS ENTRY_OF_KIND(ENTRY_KIND_ZEROS)
#define ENTRY_NAN ENTRY_OF_KIND(ENTRY_KIND_NAN)
#define ENTRY_UNINIT ENTRY_OF_KIND(ENTRY_KIND_UNINIT)

/* True: it is no special value, but where a chunk is stored. */
static inline bool entry_is_stored(uint64_t entry)
{
	return !(entry & ENTRY_SPECIAL);
}

struct index_page {
	uint64_t same;  /* if `slot` is NULL: all entries; the page is folded   */
	uint64_t *slot;
	uint32_t cap;   /* entries at `slot` */
};

struct index {
	uint32_t n; /* entries */
	uint32_t npages, room; /* `page` has memory for so many */
	bool loading;   /* what it takes from now on has a bound: held.h */
	struct index_page *page;
	uint32_t nsame; /* folded pages                          */
	uint32_t nspare;
	void *spare;    /* a list of pages, see index_reserve    */
};

void index_deinit(struct index *ix);

uint64_t index_get(const struct index *ix, uint32_t i);

/*
 * False: out of memory, and nothing has changed. Cannot fail for as many calls as index_reserve
 * made room for.
 */
bool index_set(struct index *ix, uint32_t i, uint64_t entry);

/* Makes sure that the next `calls` calls of index_set find memory. -ENOMEM. */
NODISCARD int index_reserve(struct index *ix, uint32_t calls);

/* Folds a page whose entries are all equal, or not needed any more. */
void index_fold(struct index *ix, struct index_page *pg);

/* The entries from i to the end of their page, for loops over all of them. */
struct index_run {
	const uint64_t *slot; /* NULL: each is `same` */
	uint64_t same;
	uint32_t n;
};

struct index_run index_run(const struct index *ix, uint32_t i);

/*
 * The same entries for writing: unfolds the page. There are as many as index_run says. NULL: out of
 * memory.
 */
uint64_t *index_own(struct index *ix, uint32_t i);

/* The first entry from i on for which `is` holds, or ix->n. Called only once for a folded page. */
static inline uint32_t index_find(const struct index *ix, uint32_t i, bool (*is)(uint64_t entry))
{
	while (i < ix->n) {
		struct index_run r = index_run(ix, i);
		uint32_t k = 0;
		if (r.slot)
			while (k < r.n && !is(r.slot[k]))
				k++;
		else if (!is(r.same))
			k = r.n;
		i += k;
		if (k < r.n)
			break;
	}
	return i;
}

/* The first entry from i on that is a stored chunk, or ix->n. */
uint32_t index_next_stored(const struct index *ix, uint32_t i);

/* How many entries are stored chunks. */
uint32_t index_count_stored(const struct index *ix);

/* Changes the number of entries. New ones are holes. If it fails, nothing has changed. */
NODISCARD int index_resize(struct index *ix, uint32_t n);

/* Copies the first n entries. *to must be zeroed; call index_deinit on it even if this fails. */
NODISCARD int index_copy(struct index *to, const struct index *from, uint32_t n);

/* Which entries are legal. */
struct index_rule {
	uint64_t last;   /* the largest offset of a stored chunk             */
	uint64_t most;   /* bytes that a compressed index may decode to      */
	bool special;    /* special values are allowed                       */
};

/*
 * Reads the index chunk at `at`, which must hold exactly `n` entries, or any number if n is
 * INDEX_ANY. *ix must be zeroed; call index_deinit on it even if this fails. -EBADMSG: an entry
 * breaks `rule`, or the chunk is damaged. -ENOTSUP: it decodes to more than rule.most. -E2BIG: more
 * than the scratch's bound. -ENOMEM: also beyond the bound of held.h, if `loading` is set.
 */
#define INDEX_ANY UINT32_MAX
NODISCARD int index_load(struct index *ix, const struct stored *at, uint32_t n,
			 struct index_rule rule, struct scratch *s);

/* Encodes the index as a chunk. Pages whose entries have become equal are folded on the way. */
NODISCARD int index_encode(struct index *ix, struct buf *out);

#endif
