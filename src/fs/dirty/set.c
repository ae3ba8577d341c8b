#include "fs/dirty/set.h"

#include "base/container.h"
#include "fs/dirty/dirty.h"

static struct dirty_chunk *chunk_of(const struct treap_node *e)
{
	return e ? CONTAINER_OF(e, struct dirty_chunk, in_set) : NULL;
}

static bool before(const struct treap_node *a, const struct treap_node *b)
{
	return chunk_of(a)->n < chunk_of(b)->n;
}

void dirty_set_init(struct dirty_set *s)
{
	*s = (struct dirty_set){.chunks.before = before};
}

void dirty_set_add(struct dirty_set *s, struct dirty_chunk *c)
{
	treap_add(&s->chunks, &c->in_set);
	s->count++;
}

void dirty_set_remove(struct dirty_set *s, struct dirty_chunk *c)
{
	treap_remove(&s->chunks, &c->in_set);
	s->count--;
}

struct dirty_chunk *dirty_set_from(const struct dirty_set *s, uint32_t n)
{
	const struct dirty_chunk key = {.n = n};
	return chunk_of(treap_from(&s->chunks, &key.in_set));
}

struct dirty_chunk *dirty_set_find(const struct dirty_set *s, uint32_t n)
{
	struct dirty_chunk *c = dirty_set_from(s, n);
	return c && c->n == n ? c : NULL;
}
