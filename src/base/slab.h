/*
 * An allocator for decoded blocks: sizes are powers of two from 4 KiB to 1 MiB, buddies from one
 * reserved address range.
 *
 * Why not malloc: blocks come in few sizes and are freed roughly in the order of allocation, and a
 * cold read of 16 KiB spent a fifth of its time on growing malloc's heap and on page faults. Here
 * freed memory is reused at once, last in, first out, and pages are taken from the system 64 KiB at
 * a time. Only slab_trim and slab_close give any back.
 *
 * slab_warm asks for huge pages, which are faster than small ones in some virtual machines. But the
 * system may have to search for them, and has to zero 2 MiB at once, so a reader that needs memory
 * immediately takes small ones.
 *
 * Thread-safe.
 */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SLAB_MIN (4u << 10)
#define SLAB_MAX (1u << 20)

struct slab;

/* Opens a slab for max_bytes, rounded up to a multiple of SLAB_MAX. -ENOMEM. */
NODISCARD int slab_open(struct slab **s, size_t max_bytes);
void slab_close(struct slab *s); /* NULL is fine */

/* How many bytes an allocation of n takes up, a power of two; 0: n is above SLAB_MAX. */
size_t slab_size(size_t n);

/*
 * Returns n bytes, not zeroed, aligned to SLAB_MIN. NULL: n is too large, or no memory of that size
 * is left.
 */
void *slab_alloc(struct slab *s, size_t n);

/* Frees p. `n`: the size passed to slab_alloc. */
void slab_free(struct slab *s, void *p, size_t n);

/* Returns the pages of all free memory to the system, when it is needed elsewhere. */
void slab_trim(struct slab *s);

/*
 * Getting pages from the system takes as long as decoding into them, so it is better done ahead.
 * slab_wants_warm returns true, to one caller, when it is time for that, such as at the start; some
 * thread must then call slab_warm. While it runs, the memory in question is not handed out: the
 * thread may be slow to get scheduled, or the system slow to answer, and touching a huge page
 * meanwhile would fault it in again.
 */
bool slab_wants_warm(struct slab *s);
void slab_warm(struct slab *s);

/* True: p came from slab_alloc. */
bool slab_owns(const struct slab *s, const void *p);

#endif
