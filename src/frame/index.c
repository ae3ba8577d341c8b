#include "frame/index.h"

#include "frame/held.h"

#include <assert.h>

#define PAGE_OF(i) ((i) / INDEX_PAGE)
#define SLOT_OF(i) ((i) % INDEX_PAGE)
#define PAGE_BYTES (INDEX_PAGE * sizeof(uint64_t))

static uint32_t pages_for(uint32_t n)
{
	return (uint32_t)ceil_div(n, INDEX_PAGE);
}

/* Entries of page p that are in use. */
static uint32_t page_entries(const struct index *ix, uint32_t p)
{
	return (uint32_t)min_u64(INDEX_PAGE, ix->n - p * INDEX_PAGE);
}

/* Memory of an index counts: held.h. NULL: there is none, or a file that is loaded gets no more. */
static void *memory_grow(const struct index *ix, void *p, uint64_t had, uint64_t want)
{
	if (!held_take(want - had, !ix->loading || want <= HELD_SMALL))
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

static void *spare_take(struct index *ix)
{
	void *page = ix->spare;
	if (page) {
		memcpy(&ix->spare, page, sizeof ix->spare);
		ix->nspare--;
	}
	return page;
}

static void spare_give(struct index *ix, void *page)
{
	memcpy(page, &ix->spare, sizeof ix->spare);
	ix->spare = page;
	ix->nspare++;
}

void index_fold(struct index *ix, struct index_page *pg)
{
	pg->same = pg->slot[0];
	memory_free(pg->slot, pg->cap * sizeof *pg->slot);
	pg->slot = NULL;
	ix->nsame++;
}

static void index_cut(struct index *ix, uint32_t n)
{
	uint32_t npages = pages_for(n);
	for (uint32_t p = npages; p < ix->npages; p++) {
		if (ix->page[p].slot)
			index_fold(ix, &ix->page[p]);
		ix->nsame--;
	}
	ix->npages = npages;
	ix->n = n;
}

void index_deinit(struct index *ix)
{
	void *page;
	while ((page = spare_take(ix)))
		memory_free(page, PAGE_BYTES);
	index_cut(ix, 0);
	memory_free(ix->page, ix->room * sizeof *ix->page);
	*ix = (struct index){0};
}

uint64_t index_get(const struct index *ix, uint32_t i)
{
	assert(i < ix->n);
	const struct index_page *pg = &ix->page[PAGE_OF(i)];
	return pg->slot ? pg->slot[SLOT_OF(i)] : pg->same;
}

struct index_run index_run(const struct index *ix, uint32_t i)
{
	assert(i < ix->n);
	const struct index_page *pg = &ix->page[PAGE_OF(i)];
	uint32_t n = page_entries(ix, PAGE_OF(i)) - SLOT_OF(i);
	return (struct index_run){pg->slot ? pg->slot + SLOT_OF(i) : NULL, pg->same, n};
}

uint32_t index_next_stored(const struct index *ix, uint32_t i)
{
	return index_find(ix, i, entry_is_stored);
}

uint32_t index_count_stored(const struct index *ix)
{
	uint32_t count = 0;
	struct index_run r;
	for (uint32_t i = 0; i < ix->n; i += r.n) {
		r = index_run(ix, i);
		if (!r.slot)
			count += entry_is_stored(r.same) ? r.n : 0;
		for (uint32_t k = 0; r.slot && k < r.n; k++)
			count += entry_is_stored(r.slot[k]);
	}
	return count;
}

/* Unfolds a page into `slot`, memory for `cap` entries. */
static void page_unfold(struct index *ix, struct index_page *pg, void *slot, uint32_t cap)
{
	assert(!pg->slot);
	pg->slot = slot;
	pg->cap = cap;
	for (uint32_t i = 0; i < cap; i++)
		pg->slot[i] = pg->same;
	ix->nsame--;
}

uint64_t *index_own(struct index *ix, uint32_t i)
{
	assert(i < ix->n);
	struct index_page *pg = &ix->page[PAGE_OF(i)];
	if (!pg->slot) {
		void *slot = spare_take(ix);
		if (!slot)
			slot = memory_grow(ix, NULL, 0, PAGE_BYTES);
		if (!slot)
			return NULL;
		page_unfold(ix, pg, slot, INDEX_PAGE);
	}
	return pg->slot + SLOT_OF(i);
}

bool index_set(struct index *ix, uint32_t i, uint64_t entry)
{
	assert(i < ix->n);
	const struct index_page *pg = &ix->page[PAGE_OF(i)];
	if (!pg->slot && pg->same == entry)
		return true;
	uint64_t *slot = index_own(ix, i);
	if (slot)
		*slot = entry;
	return slot;
}

int index_reserve(struct index *ix, uint32_t calls)
{
	while (ix->nspare < min_u64(calls, ix->nsame)) {
		void *page = memory_grow(ix, NULL, 0, PAGE_BYTES);
		if (!page)
			return -ENOMEM;
		spare_give(ix, page);
	}
	return 0;
}

/* Memory for `want` entries, and for some that will follow them. */
static uint32_t cap_for(uint32_t want)
{
	uint32_t cap = 8;
	while (cap < want)
		cap *= 2;
	return cap;
}

/* Gives the last page, which may be shorter than others, memory for `want` entries. */
static int page_grow(struct index *ix, struct index_page *pg, uint32_t want)
{
	uint32_t cap = cap_for(want);
	if (pg->slot && pg->cap >= want)
		return 0;
	uint64_t had = pg->slot ? pg->cap : 0, *slot;
	slot = memory_grow(ix, pg->slot, had * sizeof *slot, cap * sizeof *slot);
	if (!slot)
		return -ENOMEM;
	if (!pg->slot) {
		page_unfold(ix, pg, slot, cap);
		return 0;
	}
	pg->slot = slot;
	pg->cap = cap;
	return 0;
}

/* The last page gets entries behind those it has: up to `to` in all. */
static int extend_last(struct index *ix, uint32_t to)
{
	uint32_t from = page_entries(ix, ix->npages - 1);
	struct index_page *pg = &ix->page[ix->npages - 1];
	if (!pg->slot && pg->same == ENTRY_ZEROS)
		return 0;
	TRY(page_grow(ix, pg, to));
	for (uint32_t i = from; i < to; i++)
		pg->slot[i] = ENTRY_ZEROS;
	return 0;
}

/* Memory for so many pages. */
static int table_grow(struct index *ix, uint32_t npages)
{
	if (npages <= ix->room)
		return 0;
	void *page = memory_grow(ix, ix->page, ix->room * sizeof *ix->page,
				 npages * sizeof *ix->page);
	if (!page)
		return -ENOMEM;
	ix->page = page;
	ix->room = npages;
	return 0;
}

int index_resize(struct index *ix, uint32_t n)
{
	if (n <= ix->n) {
		index_cut(ix, n);
		return 0;
	}
	uint32_t npages = pages_for(n), old = ix->npages;
	TRY(table_grow(ix, npages));
	if (old > 0 && page_entries(ix, old - 1) < INDEX_PAGE)
		TRY(extend_last(ix, (uint32_t)min_u64(INDEX_PAGE, n - (old - 1) * INDEX_PAGE)));
	for (uint32_t p = old; p < npages; p++)
		ix->page[p] = (struct index_page){.same = ENTRY_ZEROS};
	ix->nsame += npages - old;
	ix->npages = npages;
	ix->n = n;
	if (old == 0 && n <= INDEX_SMALL && page_grow(ix, &ix->page[0], n) < 0) {
		index_cut(ix, 0);
		return -ENOMEM;
	}
	return 0;
}

static int page_copy(struct index *to, const struct index *from, uint32_t p)
{
	struct index_page *pg = &to->page[p];
	const uint64_t *slot = from->page[p].slot;
	if (!slot && !pg->slot) {
		pg->same = from->page[p].same;
		return 0;
	}
	uint64_t *own = index_own(to, p * INDEX_PAGE);
	if (!own)
		return -ENOMEM;
	for (uint32_t i = 0; i < page_entries(to, p); i++)
		own[i] = slot ? slot[i] : from->page[p].same;
	return 0;
}

int index_copy(struct index *to, const struct index *from, uint32_t n)
{
	assert(n <= from->n);
	TRY(index_resize(to, n));
	for (uint32_t p = 0; p < to->npages; p++)
		TRY(page_copy(to, from, p));
	return 0;
}
