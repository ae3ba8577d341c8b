#include "base/treap.h"

#include <assert.h>
#include <stddef.h>

static uint32_t next_weight(struct treap *t)
{
	t->seed = t->seed * 1664525 + 1013904223; /* Numerical Recipes */
	return t->seed >> 4;                      /* low bits are the least random */
}

/* Splits a tree: nodes before `key` to lo_hi[0], the others to lo_hi[1]. */
static void split(const struct treap *t, struct treap_node *top, const struct treap_node *key,
		  struct treap_node *lo_hi[2])
{
	struct treap_node **lo = &lo_hi[0], **hi = &lo_hi[1];

	while (top) {
		if (t->before(top, key)) {
			*lo = top;
			lo = &top->kid[1];
			top = *lo;
		} else {
			*hi = top;
			hi = &top->kid[0];
			top = *hi;
		}
	}
	*lo = *hi = NULL;
}

/* Joins two trees; all nodes of `lo` are before all of `hi`. */
static struct treap_node *join(struct treap_node *lo, struct treap_node *hi)
{
	struct treap_node *top = NULL, **at = &top;

	while (lo && hi) {
		if (lo->weight > hi->weight) {
			*at = lo;
			at = &lo->kid[1];
			lo = *at;
		} else {
			*at = hi;
			at = &hi->kid[0];
			hi = *at;
		}
	}
	*at = lo ? lo : hi;
	return top;
}

void treap_add(struct treap *t, struct treap_node *e)
{
	struct treap_node **at = &t->root;

	e->weight = next_weight(t);
	while (*at && (*at)->weight > e->weight)
		at = &(*at)->kid[t->before(*at, e)];
	split(t, *at, e, e->kid);
	*at = e;
}

void treap_remove(struct treap *t, struct treap_node *e)
{
	struct treap_node **at = &t->root;

	while (*at != e) {
		assert(*at);
		at = &(*at)->kid[t->before(*at, e)];
	}
	*at = join(e->kid[0], e->kid[1]);
}

struct treap_node *treap_from(const struct treap *t, const struct treap_node *key)
{
	struct treap_node *found = NULL;

	for (struct treap_node *e = t->root; e;) {
		bool before = t->before(e, key);
		if (!before)
			found = e;
		e = e->kid[before];
	}
	return found;
}

struct treap_node *treap_below(const struct treap *t, const struct treap_node *key)
{
	struct treap_node *found = NULL;

	for (struct treap_node *e = t->root; e;) {
		bool before = t->before(e, key);
		if (before)
			found = e;
		e = e->kid[before];
	}
	return found;
}
