/*
 * Memory for decoded blocks: powers of two from 4 KiB to 1 MiB out of one reserved range.
 *
 * Why not malloc: blocks come in few sizes and go in about the order in which they
 * came, and a cold read of 16 KiB spent a fifth of its time in the growth of malloc's heap and in
 * page faults. Here freed memory is used again at once, last in, first out, and pages are got from
 * the system 64 KiB at a time. Nothing is given back before slab_close. (Huge pages were tried: the
 * system spends more on finding and zeroing them than they save.)
 *
 * Threads: all functions from any thread.
 */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAB_MIN (4u << 10)
#define SLAB_MAX (1u << 20)

struct slab;

/* Room for max_bytes, rounded up to SLAB_MAX. */
NODISCARD int slab_open(struct slab **s, size_t max_bytes);
void slab_close(struct slab *s); /* NULL is fine */

/* What n bytes take: a power of two; more than SLAB_MAX: 0, not to be had here. */
size_t slab_size(size_t n);

/* NULL: too large, or nothing of that size is left. */
void *slab_alloc(struct slab *s, size_t n);
void slab_free(struct slab *s, void *p, size_t n);

/*
 * Getting pages from the system takes as long as decoding into them. Who has a moment gets those
 * that will be wanted next: true, to one caller, when it is time, and then slab_warm by any thread.
 */
bool slab_wants_warm(struct slab *s);
void slab_warm(struct slab *s);

/* True: p came from slab_alloc. */
bool slab_owns(const struct slab *s, const void *p);

#endif
