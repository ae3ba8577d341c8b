#include "fs/dirty/touched.h"

void touched_add(struct touched *t, uint64_t at, uint64_t len)
{
	if (t->whole)
		return;
	bool exact = ranges_add(&t->ranges, at, at + len);
	t->bytes += len;
	if (t->bytes > TOUCHED_MAX_BYTES)
		t->bytes = ranges_bytes(&t->ranges);
	if (!exact || t->bytes > TOUCHED_MAX_BYTES)
		touched_whole(t);
}

void touched_whole(struct touched *t)
{
	touched_clear(t);
	t->whole = true;
}

void touched_clear(struct touched *t)
{
	ranges_clear(&t->ranges);
	*t = (struct touched){0};
}
