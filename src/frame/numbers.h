/*
 * An array with a number for each chunk of a frame: its place (index.h), its checksum, or its
 * length. There may be a quarter of a billion chunks.
 *
 * It is divided into pages of NUMBERS_PAGE numbers. A page whose numbers are all equal is *folded*
 * into that one number. So a million holes, or a few bytes on disk that claim to be a quarter of a
 * billion chunks, take next to no memory. The memory is counted: held.h.
 */
#ifndef FRAME_NUMBERS_H
#define FRAME_NUMBERS_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define NUMBERS_PAGE 4096u
#define NUMBERS_SMALL 512u /* arrays this short are never folded */

/* The value of new numbers: no checksum, no length; in an index, a hole (ENTRY_ZEROS). */
#define NUMBER_NEW (0x81ull << 56)

struct numbers_page {
	uint64_t same;  /* if `slot` is NULL, the page is folded, and this is each of its numbers */
	uint64_t *slot;
	uint32_t cap;   /* allocated numbers of `slot` */
};

/* Zero-initialised. */
struct numbers {
	uint32_t n;
	uint32_t npages, room; /* `room`: allocated entries of `page`              */
	bool loading;          /* from now on, its memory is bounded: held.h       */
	struct numbers_page *page;
	uint32_t nsame;        /* folded pages                                     */
	uint32_t nspare;
	void *spare;           /* a list of spare pages, see numbers_reserve       */
};

void numbers_deinit(struct numbers *a);

uint64_t numbers_get(const struct numbers *a, uint32_t i);

/*
 * False: out of memory, and nothing has changed. Cannot fail for the calls that numbers_reserve
 * made room for.
 */
bool numbers_set(struct numbers *a, uint32_t i, uint64_t number);

/* Makes sure that the next `calls` calls of numbers_set find memory. -ENOMEM. */
NODISCARD int numbers_reserve(struct numbers *a, uint32_t calls);

/* Folds a page whose numbers are all equal, or no longer needed. */
void numbers_fold(struct numbers *a, struct numbers_page *pg);

/* The numbers from i to the end of their page, for loops over all of them. */
struct numbers_run {
	const uint64_t *slot; /* NULL: each is `same` */
	uint64_t same;
	uint32_t n;
};

struct numbers_run numbers_run(const struct numbers *a, uint32_t i);

/* The same for writing, as many as numbers_run says: unfolds the page. NULL: out of memory. */
uint64_t *numbers_own(struct numbers *a, uint32_t i);

/* The first from i on for which `is` holds, or a->n. Called only once for a folded page. */
static inline uint32_t numbers_find(const struct numbers *a, uint32_t i, bool (*is)(uint64_t))
{
	while (i < a->n) {
		struct numbers_run r = numbers_run(a, i);
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

/* Changes the number of elements. New ones are NUMBER_NEW. If it fails, nothing has changed. */
NODISCARD int numbers_resize(struct numbers *a, uint32_t n);

/* Copies the first n. *to must be zeroed; call numbers_deinit on it even if this fails. */
NODISCARD int numbers_copy(struct numbers *to, const struct numbers *from, uint32_t n);

#endif
