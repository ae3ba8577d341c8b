#include "fs/backing/absent.h"

#include "base/clock.h"
#include "base/meter.h"

#include <string.h>

/* How long the kernel may take from its lookup to its request on a busy machine, but no longer. */
#define SHORT_NS (50 * CLOCK_MS)

void absent_note(struct absent *a, const struct inode *parent, const char *name)
{
	pthread_mutex_lock(&a->lock);
	struct absent_name *s = &a->slot[a->next++ % ABSENT_SLOTS];
	s->parent = parent;
	s->generation = parent->generation;
	s->when = meter_now();
	strcpy(s->name, name);
	pthread_mutex_unlock(&a->lock);
}

bool absent_take(struct absent *a, const struct inode *parent, const char *name)
{
	uint64_t now = meter_now();
	bool found = false;

	pthread_mutex_lock(&a->lock);
	for (struct absent_name *s = a->slot; s < a->slot + ABSENT_SLOTS; s++) {
		if (s->parent != parent || s->generation != parent->generation ||
		    strcmp(s->name, name) != 0)
			continue;
		found |= now - s->when < SHORT_NS;
		s->name[0] = 0;
	}
	pthread_mutex_unlock(&a->lock);
	return found;
}
