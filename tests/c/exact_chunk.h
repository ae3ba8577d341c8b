/*
 * Passes a chunk's bytes to the parser as it asks for them, in allocations of exactly that size, so
 * that a sanitizer sees any access beyond.
 */
#ifndef TESTS_EXACT_CHUNK_H
#define TESTS_EXACT_CHUNK_H

#include "codec/chunk.h"
#include "exact.h"

#include <stdio.h>

/*
 * chunk_parse of the chunk at the start of v, at first with `have` bytes of it. Aborts if it asks
 * for more bytes than there are, or for none.
 */
static inline int exact_parse(struct chunk *c, struct view v, uint32_t item, size_t have)
{
	for (;;) {
		uint8_t *head = exact_copy(v.p, have);
		int rc = chunk_parse(c, view_of(head, have), v.n, item);
		free(head);
		if (rc <= 0)
			return rc;
		if ((size_t)rc <= have || (size_t)rc > v.n) {
			fprintf(stderr, "chunk_parse: has %zu, asks for %d of %zu\n", have, rc,
				v.n);
			abort();
		}
		have = (size_t)rc;
	}
}

/* Loads the reference block of a parsed chunk, if it needs one. */
static inline int exact_load_ref(struct chunk *c, struct scratch *s, struct view v)
{
	if (!chunk_wants_ref(c))
		return 0;
	struct extent e = chunk_extent(c, (struct run){0, 1});
	uint8_t *stored = exact_copy(v.p + e.off, e.len);
	int rc = chunk_load_ref(c, s, view_of(stored, e.len));
	free(stored);
	return rc;
}

#endif
