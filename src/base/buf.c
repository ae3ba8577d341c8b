#include "base/buf.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/*
 * Buffers of at least this size that are whole pages are page-aligned: the kernel, which copies
 * page by page, then has half as many pieces to copy.
 */
#define PAGED (64u << 10)

/*
 * Up to this size realloc is served from the thread's cache (tcache, in glibc up to 1032 bytes).
 * calloc and aligned_alloc bypass that and take the lock of the arena, which threads share: opening
 * and reading a small file allocates thirty times.
 */
#define AT_HAND 1024

/*
 * Buffers from this size on are aligned to a cache line. Aligning smaller ones would fragment the
 * heap: glibc looks for a free piece that is larger by the alignment, so the gap that a freed
 * buffer leaves is too small for the next one. Next to a remembered inode, each new file of 4 KiB
 * left such a gap, and next to the frame of an open file, each of 64 KiB. The buffers of a thread
 * are few. Those that are kept are aligned only if they are so large that malloc maps each by
 * itself (main.c).
 */
#define ALIGNED (16u << 10)
#define ALIGNED_KEPT (256u << 10)

static void *take_at_hand(size_t size)
{
	return realloc(NULL, size ? size : 1);
}

void *mem_zalloc(size_t size)
{
	if (size > AT_HAND)
		return calloc(1, size);
	void *p = take_at_hand(size);
	return p ? memset(p, 0, size) : NULL;
}

void *mem_zalloc_array(size_t n, size_t size)
{
	return n && size && n <= AT_HAND / size ? mem_zalloc(n * size)
						: calloc(n ? n : 1, size ? size : 1);
}

void *mem_alloc_aligned(size_t size)
{
	return aligned_alloc(BUF_ALIGN, size);
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

void mem_trim(void)
{
#ifdef HAVE_MALLOC_TRIM
	(void)malloc_trim(0);
#endif
}

size_t mem_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE); /* not a system call: libc has it */
}

bool mem_populate(void *p, size_t n)
{
	uintptr_t page = mem_page_size();
	uintptr_t lo = ((uintptr_t)p + page - 1) & ~(page - 1);
	uintptr_t hi = ((uintptr_t)p + n) & ~(page - 1);

	return lo >= hi || madvise((void *)lo, hi - lo, MADV_POPULATE_WRITE) == 0;
}

static int reserve(struct buf *b, size_t cap, size_t aligned)
{
	if (cap <= b->cap)
		return 0;
	if (cap > SIZE_MAX - BUF_ALIGN)
		return -ENOMEM;
	size_t size = (cap + BUF_ALIGN - 1) & ~(size_t)(BUF_ALIGN - 1);
	bool paged = size >= PAGED && size % mem_page_size() == 0;
	uint8_t *p = size < aligned ? take_at_hand(size)
				    : aligned_alloc(paged ? mem_page_size() : BUF_ALIGN, size);
	if (!p)
		return -ENOMEM;
	if (b->n)
		memcpy(p, b->p, b->n);
	free(b->p);
	b->p = p;
	b->cap = size;
	return 0;
}

int buf_reserve(struct buf *b, size_t cap)
{
	return reserve(b, cap, ALIGNED_KEPT);
}

/*
 * A buffer that was too small gets an eighth more than it needs, up to this size. Something that is
 * appended to repeatedly needs a few more bytes each time, and the page faults of new memory cost
 * more than filling it.
 */
#define ROOMY (1u << 20)

int buf_reserve_fresh(struct buf *b, size_t cap)
{
	bool again = b->cap > 0;

	if (cap <= b->cap)
		return 0;
	buf_free(b);
	return reserve(b, again && cap < ROOMY ? min_u64(cap + cap / 8, ROOMY) : cap, ALIGNED);
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

int buf_vprint(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;

	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	int rc = n < 0 ? -EINVAL : buf_reserve(b, b->n + (size_t)n + 1);
	if (rc >= 0) {
		vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, again);
		b->n += (size_t)n;
	}
	va_end(again);
	return rc;
}

int buf_print(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int rc = buf_vprint(b, fmt, ap);
	va_end(ap);
	return rc;
}

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}

void buf_trim(struct buf *b, size_t most)
{
	if (b->cap > most)
		buf_free(b);
}
