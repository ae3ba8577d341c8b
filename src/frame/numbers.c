#include "frame/numbers.h"

#include "frame/held.h"

#include <assert.h>

#define PAGE_OF(i) ((i) / NUMBERS_PAGE)
#define SLOT_OF(i) ((i) % NUMBERS_PAGE)
#define PAGE_BYTES (NUMBERS_PAGE * sizeof(uint64_t))

static uint32_t pages_for(uint32_t n)
{
	return (uint32_t)ceil_div(n, NUMBERS_PAGE);
}

/* How many numbers of page p are in use. */
static uint32_t page_used(const struct numbers *a, uint32_t p)
{
	return (uint32_t)min_u64(NUMBERS_PAGE, a->n - p * NUMBERS_PAGE);
}

/* Memory is counted: held.h. NULL: out of memory, or beyond the bound while loading. */
static void *memory_grow(const struct numbers *a, void *p, uint64_t had, uint64_t want)
{
	if (!held_take(want - had, !a->loading || want <= HELD_SMALL))
		return NULL;
	p = mem_realloc(p, want);
	if (!p)
		held_give(want - had);
	return p;
}

static void memory_free(void *p, uint64_t had)
{
	held_give(had);
	mem_free(p);
}

static void *spare_take(struct numbers *a)
{
	void *page = a->spare;
	if (page) {
		memcpy(&a->spare, page, sizeof a->spare);
		a->nspare--;
	}
	return page;
}

static void spare_give(struct numbers *a, void *page)
{
	memcpy(page, &a->spare, sizeof a->spare);
	a->spare = page;
	a->nspare++;
}

void numbers_fold(struct numbers *a, struct numbers_page *pg)
{
	pg->same = pg->slot[0];
	memory_free(pg->slot, pg->cap * sizeof *pg->slot);
	pg->slot = NULL;
	a->nsame++;
}

static void numbers_cut(struct numbers *a, uint32_t n)
{
	uint32_t npages = pages_for(n);
	for (uint32_t p = npages; p < a->npages; p++) {
		if (a->page[p].slot)
			numbers_fold(a, &a->page[p]);
		a->nsame--;
	}
	a->npages = npages;
	a->n = n;
}

void numbers_deinit(struct numbers *a)
{
	void *page;
	while ((page = spare_take(a)))
		memory_free(page, PAGE_BYTES);
	numbers_cut(a, 0);
	memory_free(a->page, a->room * sizeof *a->page);
	*a = (struct numbers){0};
}

uint64_t numbers_get(const struct numbers *a, uint32_t i)
{
	assert(i < a->n);
	const struct numbers_page *pg = &a->page[PAGE_OF(i)];
	return pg->slot ? pg->slot[SLOT_OF(i)] : pg->same;
}

struct numbers_run numbers_run(const struct numbers *a, uint32_t i)
{
	assert(i < a->n);
	const struct numbers_page *pg = &a->page[PAGE_OF(i)];
	uint32_t n = page_used(a, PAGE_OF(i)) - SLOT_OF(i);
	return (struct numbers_run){pg->slot ? pg->slot + SLOT_OF(i) : NULL, pg->same, n};
}

/* Unfolds a page into `slot`, memory for `cap` numbers. */
static void page_unfold(struct numbers *a, struct numbers_page *pg, void *slot, uint32_t cap)
{
	assert(!pg->slot);
	pg->slot = slot;
	pg->cap = cap;
	for (uint32_t i = 0; i < cap; i++)
		pg->slot[i] = pg->same;
	a->nsame--;
}

uint64_t *numbers_own(struct numbers *a, uint32_t i)
{
	assert(i < a->n);
	struct numbers_page *pg = &a->page[PAGE_OF(i)];
	if (!pg->slot) {
		void *slot = spare_take(a);
		if (!slot)
			slot = memory_grow(a, NULL, 0, PAGE_BYTES);
		if (!slot)
			return NULL;
		page_unfold(a, pg, slot, NUMBERS_PAGE);
	}
	return pg->slot + SLOT_OF(i);
}

bool numbers_set(struct numbers *a, uint32_t i, uint64_t number)
{
	assert(i < a->n);
	const struct numbers_page *pg = &a->page[PAGE_OF(i)];
	if (!pg->slot && pg->same == number)
		return true;
	uint64_t *slot = numbers_own(a, i);
	if (slot)
		*slot = number;
	return slot;
}

int numbers_reserve(struct numbers *a, uint32_t calls)
{
	while (a->nspare < min_u64(calls, a->nsame)) {
		void *page = memory_grow(a, NULL, 0, PAGE_BYTES);
		if (!page)
			return -ENOMEM;
		spare_give(a, page);
	}
	return 0;
}

/* The capacity to allocate for `want` numbers, with room to grow. */
static uint32_t cap_for(uint32_t want)
{
	uint32_t cap = 8;
	while (cap < want)
		cap *= 2;
	return cap;
}

/* Gives the last page, which may be shorter than the others, memory for `want` numbers. */
static int page_grow(struct numbers *a, struct numbers_page *pg, uint32_t want)
{
	uint32_t cap = cap_for(want);
	if (pg->slot && pg->cap >= want)
		return 0;
	uint64_t had = pg->slot ? pg->cap : 0, *slot;
	slot = memory_grow(a, pg->slot, had * sizeof *slot, cap * sizeof *slot);
	if (!slot)
		return -ENOMEM;
	if (!pg->slot) {
		page_unfold(a, pg, slot, cap);
		return 0;
	}
	pg->slot = slot;
	pg->cap = cap;
	return 0;
}

/* Fills the last page up to `to` numbers. */
static int extend_last(struct numbers *a, uint32_t to)
{
	uint32_t from = page_used(a, a->npages - 1);
	struct numbers_page *pg = &a->page[a->npages - 1];
	if (!pg->slot && pg->same == NUMBER_NEW)
		return 0;
	TRY(page_grow(a, pg, to));
	for (uint32_t i = from; i < to; i++)
		pg->slot[i] = NUMBER_NEW;
	return 0;
}

/* Makes room for `npages` entries in the table of pages. */
static int table_grow(struct numbers *a, uint32_t npages)
{
	if (npages <= a->room)
		return 0;
	void *page = memory_grow(a, a->page, a->room * sizeof *a->page,
				 npages * sizeof *a->page);
	if (!page)
		return -ENOMEM;
	a->page = page;
	a->room = npages;
	return 0;
}

int numbers_resize(struct numbers *a, uint32_t n)
{
	if (n <= a->n) {
		numbers_cut(a, n);
		return 0;
	}
	uint32_t npages = pages_for(n), old = a->npages;
	TRY(table_grow(a, npages));
	if (old > 0 && page_used(a, old - 1) < NUMBERS_PAGE)
		TRY(extend_last(a, (uint32_t)min_u64(NUMBERS_PAGE, n - (old - 1) * NUMBERS_PAGE)));
	for (uint32_t p = old; p < npages; p++)
		a->page[p] = (struct numbers_page){.same = NUMBER_NEW};
	a->nsame += npages - old;
	a->npages = npages;
	a->n = n;
	if (old == 0 && n <= NUMBERS_SMALL && page_grow(a, &a->page[0], n) < 0) {
		numbers_cut(a, 0);
		return -ENOMEM;
	}
	return 0;
}

static int page_copy(struct numbers *to, const struct numbers *from, uint32_t p)
{
	struct numbers_page *pg = &to->page[p];
	const uint64_t *slot = from->page[p].slot;
	if (!slot && !pg->slot) {
		pg->same = from->page[p].same;
		return 0;
	}
	uint64_t *own = numbers_own(to, p * NUMBERS_PAGE);
	if (!own)
		return -ENOMEM;
	for (uint32_t i = 0; i < page_used(to, p); i++)
		own[i] = slot ? slot[i] : from->page[p].same;
	return 0;
}

int numbers_copy(struct numbers *to, const struct numbers *from, uint32_t n)
{
	assert(n <= from->n);
	TRY(numbers_resize(to, n));
	for (uint32_t p = 0; p < to->npages; p++)
		TRY(page_copy(to, from, p));
	return 0;
}
