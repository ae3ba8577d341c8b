#include "fs/dirty/recall.h"

void recall_init(struct recall *r)
{
	*r = (struct recall){0};
	pthread_mutex_init(&r->lock, NULL);
}

void recall_deinit(struct recall *r)
{
	for (unsigned i = 0; i < RECALL_SLOTS; i++)
		buf_free(&r->slot[i].bytes);
	pthread_mutex_destroy(&r->lock);
}

void recall_give(struct recall *r, struct recall_key key, struct buf *bytes)
{
	struct buf old = *bytes;

	if (bytes->cap <= RECALL_MOST) {
		pthread_mutex_lock(&r->lock);
		unsigned i = r->next++ % RECALL_SLOTS;
		old = r->slot[i].bytes;
		r->slot[i].bytes = *bytes;
		r->slot[i].key = key;
		pthread_mutex_unlock(&r->lock);
	}
	*bytes = (struct buf){0};
	buf_free(&old);
}

bool recall_take(struct recall *r, struct recall_key key, size_t n, struct buf *out)
{
	bool found = false;

	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < RECALL_SLOTS && !found; i++) {
		struct buf *b = &r->slot[i].bytes;
		found = b->p && b->n == n && r->slot[i].key.owner == key.owner &&
			r->slot[i].key.sum == key.sum;
		if (!found)
			continue;
		*out = *b;
		*b = (struct buf){0};
		r->next = i; /* recall_give reuses this slot next */
	}
	pthread_mutex_unlock(&r->lock);
	return found;
}
