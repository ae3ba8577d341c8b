/*
 * Memory. Every allocation of the project goes through this file, so that a
 * test can make the n-th one fail.
 *
 * A `buf` owns its bytes. Large ones are aligned to a cache line: from 256 KiB on, or from 16 KiB
 * on if they come from buf_reserve_fresh. Zero it before first use ({0}); freeing an empty one is
 * fine.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdarg.h>

#define BUF_ALIGN 64

struct buf {
	uint8_t *p;
	size_t n;   /* bytes in use  */
	size_t cap; /* bytes at `p`  */
};

/* Zeroed memory for a struct or an array, or NULL. */
void *mem_zalloc(size_t size);
void *mem_zalloc_array(size_t n, size_t size);

/* Memory aligned to BUF_ALIGN, not zeroed; `size` must be a multiple of that. */
void *mem_alloc_aligned(size_t size);

/* As realloc(3): the old block stays valid if NULL is returned. */
void *mem_realloc(void *p, size_t size);
char *mem_strdup(const char *s);
void mem_free(void *p);

/*
 * Returns freed memory to the system wherever it is; free only does so at the top of the heap,
 * which a small allocation may pin. Allocations block meanwhile, and using that memory again takes
 * a page fault for each page. No-op where the C library cannot do it.
 */
void mem_trim(void);

/* The kernel's page size in bytes, a power of two. */
size_t mem_page_size(void);

/*
 * Prefaults the whole pages inside [p, p + n) in one call, for memory that is about to be filled: a
 * page fault for each takes twice as long, in a virtual machine four times. False: not done (Linux
 * before 5.14, or no memory); they will be faulted in on use.
 */
bool mem_populate(void *p, size_t n);

/*
 * Makes room for at least `cap` bytes in total. Content and `n` stay. -ENOMEM: nothing has changed.
 */
NODISCARD int buf_reserve(struct buf *b, size_t cap);

/*
 * The same, but the content may be lost, even if this fails: the old memory is freed first, so that
 * a large buffer never exists twice. One that is replaced may get more than `cap`.
 */
NODISCARD int buf_reserve_fresh(struct buf *b, size_t cap);

/* Append the bytes, or the text that printf would print, without a NUL. -ENOMEM. */
NODISCARD int buf_append(struct buf *b, struct view v);
NODISCARD __attribute__((format(printf, 2, 3))) int buf_print(struct buf *b, const char *fmt, ...);
NODISCARD __attribute__((format(printf, 2, 0))) int buf_vprint(struct buf *b, const char *fmt,
							       va_list ap);

/* Frees the bytes and leaves an empty buf. */
void buf_free(struct buf *b);

/* The same if it has room for more than `most` bytes, too much to keep for the next use. */
void buf_trim(struct buf *b, size_t most);

static inline struct view buf_view(const struct buf *b)
{
	return (struct view){b->p, b->n};
}

static inline struct span buf_span(const struct buf *b)
{
	return (struct span){b->p, b->n};
}

#endif
