#include "fs/dirty/fair.h"

#include <assert.h>

static void file_put(struct fair_queue *q, struct fair_file *f)
{
	f->next = NULL;
	*(q->first ? &q->last->next : &q->first) = f;
	q->last = f;
}

void fair_put(struct fair_queue *q, struct fair_file *f, struct fair_item *i)
{
	if (!f->first)
		file_put(q, f);
	i->next = NULL;
	*(f->first ? &f->last->next : &f->first) = i;
	f->last = i;
}

void fair_take(struct fair_queue *q)
{
	struct fair_file *f = q->first;

	assert(f && f->first);
	q->first = f->next;
	f->first = f->first->next;
	if (f->first)
		file_put(q, f);
}
