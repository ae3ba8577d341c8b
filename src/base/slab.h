/*
 * An allocator for decoded blocks: powers of two from 4 KiB to 1 MiB, buddies out of one reserved
 * range.
 *
 * Why not malloc: blocks have few sizes and are freed in about the order in which they came, and a
 * cold read of 16 KiB spent a fifth of its time in the growth of malloc's heap and in page faults.
 * Here freed memory is used again at once, last in, first out, and pages are taken from the system
 * 64 KiB at a time. Only slab_trim and slab_close return any.
 *
 * slab_warm asks for huge pages. In a virtual machine they take half the time of small ones. But
 * the system may have to search for them, and has to zero 2 MiB at once: a reader that needs memory
 * at once takes small ones.
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

/* The bytes that an allocation of n takes, a power of two; 0: more than SLAB_MAX. */
size_t slab_size(size_t n);

/*
 * n bytes, not zeroed, aligned to SLAB_MIN. NULL: n is
 * too large, or no memory of that size is left.
 */
void *slab_alloc(struct slab *s, size_t n);

/* `n` as it was allocated. */
void slab_free(struct slab *s, void *p, size_t n);

/* Gives the pages of all that is free back to the system: somebody else wants that memory. */
void slab_trim(struct slab *s);

/*
 * Taking pages from the system takes as long as decoding into them, so that it is better done
 * ahead. slab_wants_warm: true, to one caller, when it is time, as it is at the start; some thread
 * then calls slab_warm. What it gets is out of everybody's reach until it is there: the thread may
 * not be running, or the system be slow, and who touches a huge page meanwhile gets it once more.
 */
bool slab_wants_warm(struct slab *s);
void slab_warm(struct slab *s);

/* True: p came from slab_alloc. */
bool slab_owns(const struct slab *s, const void *p);

#endif
