/*
 * An ordered set as a treap: a binary search tree that is also a heap by random weights, which
 * keeps it balanced. It is intrusive: nothing is allocated, and no call can fail. The owner of the
 * set does the locking.
 */
#ifndef BASE_TREAP_H
#define BASE_TREAP_H

#include <stdbool.h>
#include <stdint.h>

struct treap_node {
	struct treap_node *kid[2]; /* the nodes before it, and those after it */
	uint32_t weight;
};

/* A strict total order on the nodes of a treap. */
typedef bool treap_order(const struct treap_node *a, const struct treap_node *b);

/* Initialise to zeros, with `before` set. */
struct treap {
	treap_order *before;
	struct treap_node *root; /* NULL: empty */
	uint32_t seed; /* of the weights */
};

/* The treap must not have a node equal to this one. */
void treap_add(struct treap *t, struct treap_node *e);

/* The node must be in the treap. */
void treap_remove(struct treap *t, struct treap_node *e);

/*
 * The first node not before `key` (lower bound), and the last one before it; NULL: there is none.
 * The key is a node that need not be in the treap.
 */
struct treap_node *treap_from(const struct treap *t, const struct treap_node *key);
struct treap_node *treap_below(const struct treap *t, const struct treap_node *key);

#endif
