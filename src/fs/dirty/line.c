#include "fs/dirty/line.h"

#include "base/container.h"
#include "fs/fs.h"

#include <assert.h>

/* A thread that is relieved by an extra one still holds at least its request buffer. */
#define REQUEST (1u << 20)

void line_init(struct line *l, struct fs *fs, pthread_mutex_t *lock)
{
	*l = (struct line){.lock = lock, .fs = fs, .patient = fs->threads / 4};
}

static bool begin_relief(struct fs *fs, uint64_t held)
{
	if (!large_borrow(fs->large, held))
		return false;
	bool begun = relief_begin(&fs->relief);
	if (!begun)
		large_return(fs->large, held);
	return begun;
}

static void end_relief(struct fs *fs, uint64_t held)
{
	relief_end(&fs->relief, true);
	large_return(fs->large, held);
}

void line_join(struct line *l, struct line_place *p, struct fair_file *file, size_t data)
{
	*p = (struct line_place){.held = max_u64(data, REQUEST)};
	pthread_cond_init(&p->first, NULL);
	fair_put(&l->queue, file, &p->item);
	if (l->patient <= l->waiting) {
		pthread_mutex_unlock(l->lock);
		p->relieved = begin_relief(l->fs, p->held);
		pthread_mutex_lock(l->lock);
	}
	l->waiting += !p->relieved;
	while (fair_first(&l->queue) != &p->item)
		pthread_cond_wait(&p->first, l->lock);
}

void line_leave(struct line *l, struct line_place *p)
{
	assert(fair_first(&l->queue) == &p->item);
	fair_take(&l->queue);
	struct fair_item *next = fair_first(&l->queue);
	if (next)
		pthread_cond_signal(&CONTAINER_OF(next, struct line_place, item)->first);
	pthread_cond_destroy(&p->first);
	l->waiting -= !p->relieved;
	if (p->relieved) {
		pthread_mutex_unlock(l->lock);
		end_relief(l->fs, p->held);
		pthread_mutex_lock(l->lock);
	}
}
