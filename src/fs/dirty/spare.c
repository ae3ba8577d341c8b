#include "fs/dirty/spare.h"

#include <pthread.h>

#define SLOTS 32

struct spare {
	pthread_mutex_t lock;
	uint64_t max, bytes; /* all below under lock */
	unsigned n, least; /* least: the smallest n since the last trim, which were not needed */
	struct buf slot[SLOTS];
};

int spare_open(struct spare **out, uint64_t max_bytes)
{
	struct spare *s = mem_zalloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->max = max_bytes;
	*out = s;
	return 0;
}

void spare_close(struct spare *s)
{
	if (!s)
		return;
	while (s->n)
		buf_free(&s->slot[--s->n]);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
}

struct buf spare_take(struct spare *s, size_t cap)
{
	struct buf b = {0};

	pthread_mutex_lock(&s->lock);
	if (s->n && s->slot[s->n - 1].cap >= cap) {
		b = s->slot[--s->n];
		s->bytes -= b.cap;
		s->least = (unsigned)min_u64(s->least, s->n);
	}
	pthread_mutex_unlock(&s->lock);
	b.n = 0;
	return b;
}

void spare_give(struct spare *s, struct buf *b)
{
	pthread_mutex_lock(&s->lock);
	bool keep = b->p && s->n < SLOTS && s->bytes + b->cap <= s->max;
	if (keep) {
		s->slot[s->n++] = *b;
		s->bytes += b->cap;
		*b = (struct buf){0};
	}
	pthread_mutex_unlock(&s->lock);
	buf_free(b);
}

void spare_trim(struct spare *s)
{
	struct buf idle[SLOTS];

	pthread_mutex_lock(&s->lock);
	unsigned n = s->least;
	s->n -= n;
	s->least = s->n;
	memcpy(idle, s->slot, n * sizeof *idle);
	memmove(s->slot, s->slot + n, s->n * sizeof *idle);
	for (unsigned i = 0; i < n; i++)
		s->bytes -= idle[i].cap;
	pthread_mutex_unlock(&s->lock);
	while (n)
		buf_free(&idle[--n]);
}
