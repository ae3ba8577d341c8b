#include "fs/dirty/set.h"

#include "fs/dirty/dirty.h"

#include <assert.h>

/*
 * Keeps the tree flat: a chunk's weight is its number, shuffled one to one (the last step of
 * MurmurHash3), and no chunk has a heavier one below it.
 */
static uint32_t weight(const struct dirty_chunk *c)
{
	uint32_t x = c->n;

	x = (x ^ x >> 16) * 0x85ebca6bu;
	x = (x ^ x >> 13) * 0xc2b2ae35u;
	return x ^ x >> 16;
}

static struct dirty_chunk **side(struct dirty_chunk *c, uint32_t n)
{
	return n < c->n ? &c->left : &c->right;
}

/* Those below n to *lo, the others to *hi. */
static void split(struct dirty_chunk *c, uint32_t n, struct dirty_chunk **lo,
		  struct dirty_chunk **hi)
{
	while (c) {
		if (c->n < n) {
			*lo = c;
			lo = &c->right;
			c = c->right;
		} else {
			*hi = c;
			hi = &c->left;
			c = c->left;
		}
	}
	*lo = *hi = NULL;
}

/* All of `lo` have lower numbers than all of `hi`. */
static void merge(struct dirty_chunk *lo, struct dirty_chunk *hi, struct dirty_chunk **out)
{
	while (lo && hi) {
		if (weight(lo) > weight(hi)) {
			*out = lo;
			out = &lo->right;
			lo = lo->right;
		} else {
			*out = hi;
			out = &hi->left;
			hi = hi->left;
		}
	}
	*out = lo ? lo : hi;
}

void dirty_set_add(struct dirty_set *s, struct dirty_chunk *c)
{
	struct dirty_chunk **at = &s->root;

	while (*at && weight(*at) > weight(c))
		at = side(*at, c->n);
	split(*at, c->n, &c->left, &c->right);
	*at = c;
	s->count++;
}

void dirty_set_remove(struct dirty_set *s, struct dirty_chunk *c)
{
	struct dirty_chunk **at = &s->root;

	while (*at != c) {
		assert(*at);
		at = side(*at, c->n);
	}
	merge(c->left, c->right, at);
	s->count--;
}

struct dirty_chunk *dirty_set_find(const struct dirty_set *s, uint32_t n)
{
	struct dirty_chunk *c = s->root;

	while (c && c->n != n)
		c = *side(c, n);
	return c;
}

struct dirty_chunk *dirty_set_from(const struct dirty_set *s, uint32_t n)
{
	struct dirty_chunk *c = s->root, *best = NULL;

	while (c) {
		if (c->n >= n)
			best = c;
		c = c->n >= n ? c->left : c->right;
	}
	return best;
}
