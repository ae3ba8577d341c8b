/*
 * Compares lists of numbers (numbers.h) with a plain array, after random changes, some of which get
 * no memory. Their memory is counted to the byte, and all of it is freed. `numbers_check SEED`.
 */
#include "base/buf.h"

/* Used by numbers.c: they can fail, fill what they allocate, and check the bytes after it. */
#define mem_realloc watched_realloc
#define mem_free watched_free
static void *watched_realloc(void *p, size_t size);
static void watched_free(void *p);
#include "frame/numbers.c"

#include "random.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST (5 * NUMBERS_PAGE)
#define FENCE 0x5EEDFE9CE5EEDFE9ull
#define ALWAYS 1u

struct block {
	size_t size;
	uint8_t bytes[];
};

static uint64_t model[MOST];
static uint64_t live; /* bytes that were given */
static uint32_t fails; /* one call in so many gets no memory; 0: none fails */
static unsigned step;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random() % n);
}

static void check(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "step %u: %s\n", step, what);
	exit(1);
}

static struct block *block_of(void *p)
{
	struct block *b = p ? (struct block *)((uint8_t *)p - sizeof *b) : NULL;
	uint64_t fence;

	if (b) {
		memcpy(&fence, b->bytes + b->size, sizeof fence);
		check(fence == FENCE, "bytes behind the memory were written");
	}
	return b;
}

static void *watched_realloc(void *p, size_t size)
{
	static const uint64_t fence = FENCE;
	struct block *b = block_of(p);
	size_t had = b ? b->size : 0;

	if (fails && below(fails) == 0)
		return NULL;
	b = realloc(b, sizeof *b + size + sizeof fence);
	check(b, "the machine has no memory");
	memset(b->bytes + had, 0xA5, size - had);
	memcpy(b->bytes + size, &fence, sizeof fence);
	b->size = size;
	live += size - had;
	return b->bytes;
}

static void watched_free(void *p)
{
	struct block *b = block_of(p);

	if (b)
		live -= b->size;
	free(b);
}

static void compare(const struct numbers *a, uint32_t n)
{
	uint32_t nsame = 0;

	check(a->n == n, "how many there are");
	for (uint32_t i = 0; i < n; i++)
		check(numbers_get(a, i) == model[i], "a number");
	for (uint32_t i = 0; i < n;) {
		struct numbers_run r = numbers_run(a, i);
		check(r.n > 0 && r.n <= n - i, "the length of a run");
		nsame += !r.slot;
		i += r.n;
	}
	check(nsame == a->nsame, "the number of folded pages");
}

/* How many numbers: any, or where something begins or ends. */
static uint32_t some_size(uint32_t n)
{
	switch (below(6)) {
	case 0: return below(MOST);
	case 1: return below(4) * NUMBERS_PAGE + NUMBERS_PAGE - 2 + below(4);
	case 2: return below(NUMBERS_SMALL + 4);
	case 3: return 8u << below(10);
	default: return (uint32_t)min_u64(n + below(2) * below(20) + 1, MOST);
	}
}

static uint32_t resize(struct numbers *a, uint32_t n)
{
	uint32_t to = some_size(n);

	if (numbers_resize(a, to) < 0) {
		check(fails, "no memory for more");
		return n;
	}
	for (uint32_t i = n; i < to; i++)
		model[i] = NUMBER_NEW;
	return to;
}

static void set(struct numbers *a, uint32_t n)
{
	uint32_t i = below(n);
	uint64_t number = below(3) ? below(2) : NUMBER_NEW;

	if (numbers_set(a, i, number))
		model[i] = number;
	else
		check(fails && fails != ALWAYS, "no memory, in spite of what was reserved");
}

static void reserve(struct numbers *a, uint32_t n)
{
	uint32_t calls = 1 + below(4), usual = fails;

	if (numbers_reserve(a, calls) < 0)
		return;
	for (fails = ALWAYS; calls; calls--)
		set(a, n);
	fails = usual;
}

/* As a caller folds: a page whose numbers are all equal. */
static void fold(struct numbers *a, uint32_t n)
{
	uint32_t i = below(n) / NUMBERS_PAGE * NUMBERS_PAGE, number = below(3);
	uint32_t end = (uint32_t)min_u64(n, i + NUMBERS_PAGE);
	uint64_t *slot = numbers_own(a, i);

	if (!slot)
		return;
	for (uint32_t k = i; k < end; k++)
		model[k] = slot[k - i] = number;
	numbers_fold(a, &a->page[i / NUMBERS_PAGE]);
}

static void copy(const struct numbers *a, uint32_t n)
{
	uint32_t part = below(2) ? n : below(n + 1);
	struct numbers to = {0};

	if (numbers_copy(&to, a, part) == 0)
		compare(&to, part);
	else
		check(fails, "no memory for a copy");
	numbers_deinit(&to);
}

static void story(unsigned steps)
{
	struct numbers a = {0};
	uint32_t n = 0;

	for (unsigned end = step + steps; step < end; step++) {
		fails = below(2) ? 0 : 2 + below(3);
		uint32_t what = n ? below(16) : 0;
		if (what < 3)
			n = resize(&a, n);
		else if (what < 4)
			fold(&a, n);
		else if (what < 5)
			copy(&a, n);
		else if (what < 7)
			reserve(&a, n);
		else
			set(&a, n);
		if (what < 7)
			compare(&a, n);
		check(held_bytes() == live, "what is counted is not what is held");
	}
	numbers_deinit(&a);
	check(!live && !held_bytes(), "something is left");
}

/* A file that is loaded gets no memory beyond the bound; one that is written to gets any. */
static void bounded(bool loading)
{
	struct numbers a = {.loading = loading};
	uint32_t got = 0;

	fails = 0;
	held_bound(3 * PAGE_BYTES + HELD_SMALL);
	check(numbers_resize(&a, MOST) == 0, "no memory for a few pages");
	while (got < MOST && numbers_set(&a, got, 1))
		got += NUMBERS_PAGE;
	check(got == (loading ? 3 * NUMBERS_PAGE : MOST), "the bound");
	numbers_deinit(&a);
	held_bound(UINT64_MAX);
	check(!live && !held_bytes(), "something is left of what was bounded");
}

int main(int argc, char **argv)
{
	state = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : 1;

	bounded(true);
	bounded(false);
	for (unsigned i = 0; i < 60; i++)
		story(400);
	return 0;
}
