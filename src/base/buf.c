#include "base/buf.h"

#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE ((uintptr_t)4096)

/* From here on buffers of whole pages lie on pages: the kernel copies its own in half the steps. */
#define PAGED (64u << 10)

void *mem_zalloc(size_t size)
{
	return calloc(1, size ? size : 1);
}

void *mem_zalloc_array(size_t n, size_t size)
{
	return calloc(n ? n : 1, size ? size : 1);
}

void *mem_realloc(void *p, size_t size)
{
	return realloc(p, size ? size : 1);
}

char *mem_strdup(const char *s)
{
	return strdup(s);
}

void mem_free(void *p)
{
	free(p);
}

static int reserve(struct buf *b, size_t cap, bool keep)
{
	if (cap <= b->cap)
		return 0;
	if (cap > SIZE_MAX - BUF_ALIGN)
		return -ENOMEM;
	size_t size = (cap + BUF_ALIGN - 1) & ~(size_t)(BUF_ALIGN - 1);
	uint8_t *p = aligned_alloc(size < PAGED || size % PAGE ? BUF_ALIGN : PAGE, size);
	if (!p)
		return -ENOMEM;
	if (keep && b->n)
		memcpy(p, b->p, b->n);
	free(b->p);
	b->p = p;
	b->cap = size;
	return 0;
}

int buf_reserve(struct buf *b, size_t cap)
{
	return reserve(b, cap, true);
}

int buf_reserve_fresh(struct buf *b, size_t cap)
{
	return reserve(b, cap, false);
}

void buf_populate(struct buf *b)
{
	uintptr_t lo = ((uintptr_t)b->p + PAGE - 1) & ~(PAGE - 1);
	uintptr_t hi = ((uintptr_t)b->p + b->cap) & ~(PAGE - 1);

	if (lo < hi) /* before Linux 5.14 it fails, and faults get the pages */
		(void)madvise((void *)lo, hi - lo, MADV_POPULATE_WRITE);
}

int buf_append(struct buf *b, struct view v)
{
	if (v.n > SIZE_MAX - b->n)
		return -ENOMEM;
	size_t need = b->n + v.n;
	if (need > b->cap)
		TRY(buf_reserve(b, need > b->cap * 2 ? need : b->cap * 2));
	if (v.n)
		memcpy(b->p + b->n, v.p, v.n);
	b->n = need;
	return 0;
}

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}
