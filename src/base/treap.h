/*
 * An ordered set as a treap: a binary tree by some order, in which no node has one of greater
 * random weight below it, so that it stays flat. The links are in the elements themselves, so that
 * nothing is allocated and no call can fail. No lock: the owner of the set has one.
 */
#ifndef BASE_TREAP_H
#define BASE_TREAP_H

#include <stdbool.h>
#include <stdint.h>

struct treap_node {
	struct treap_node *kid[2]; /* of those before it, and behind it */
	uint32_t weight;
};

/* A strict order. Of two nodes in one treap, one is before the other. */
typedef bool treap_order(const struct treap_node *a, const struct treap_node *b);

/* Empty: zeroed but for `before`. */
struct treap {
	treap_order *before;
	struct treap_node *root; /* NULL: empty */
	uint32_t seed; /* of the weights */
};

/* The treap must have no node that is neither before nor behind this one. */
void treap_add(struct treap *t, struct treap_node *e);

/* The node must be in the treap. */
void treap_remove(struct treap *t, struct treap_node *e);

/*
 * The first node that is not before `key`, or the last one that is; NULL: there is none. The key is
 * a node that need not be in the treap.
 */
struct treap_node *treap_from(const struct treap *t, const struct treap_node *key);
struct treap_node *treap_below(const struct treap *t, const struct treap_node *key);

#endif
