/*
 * Pages of a chunk that are newer than the bytes below them, in ascending order. Offsets are those
 * in the chunk. Under the lock of the file.
 */
#ifndef FS_DIRTY_PAGES_H
#define FS_DIRTY_PAGES_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIRTY_PAGE 4096u

struct dirty_page {
	uint32_t at; /* its first byte in the chunk, a multiple of DIRTY_PAGE */
	uint8_t *p;  /* DIRTY_PAGE bytes; zeros beyond the end of the chunk   */
};

/* Zeroed: there are none, and nothing to free. */
struct dirty_pages {
	struct dirty_page *page; /* owned, as are the pages */
	uint32_t n, cap;
};

/* The first page that ends after `at`; `n`: none. */
uint32_t pages_from(const struct dirty_pages *d, uint32_t at);

/* True: page i, which is pages_from of `at`, has the byte at `at`. */
bool pages_has(const struct dirty_pages *d, uint32_t i, uint32_t at);

/* True: the pages have all bytes of [lo, hi), which is not empty. */
bool pages_cover(const struct dirty_pages *d, uint32_t lo, uint32_t hi);

/* True: some page has bytes of [lo, hi). */
bool pages_touch(const struct dirty_pages *d, uint32_t lo, uint32_t hi);

/* True: what the pages have of [lo, lo + v.n) is the same as in v. */
bool pages_agree(const struct dirty_pages *d, uint32_t lo, struct view v);

/* Copies the parts of [lo, lo + dst.n) that the pages have to dst, over what is there. */
void pages_overlay(const struct dirty_pages *d, uint32_t lo, struct span dst);

/* Makes room for `more` further pages. -ENOMEM. */
NODISCARD int pages_reserve(struct dirty_pages *d, uint32_t more);

/* Inserts a page as page i, whose bytes are owned from then on. There must be room for it. */
void pages_insert(struct dirty_pages *d, uint32_t i, struct dirty_page page);

/*
 * Moves the pages that `to` does not have to it; the others stay. There must be room for all of
 * them.
 */
void pages_give(struct dirty_pages *from, struct dirty_pages *to);

/* Drops page `first` and all after it. */
void pages_drop(struct dirty_pages *d, uint32_t first);

/* The memory that they take, in bytes. */
size_t pages_memory(const struct dirty_pages *d);

#endif
