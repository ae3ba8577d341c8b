#include "fs/file/uncommitted.h"

#include "fs/file/file.h"

#include <assert.h>

static void add(struct uncommitted *u, struct file *f)
{
	f->place.ticket = u->next_ticket++;
	f->place.newer = NULL;
	f->place.older = u->newest;
	*(u->newest ? &u->newest->place.newer : &u->oldest) = f;
	u->newest = f;
	f->place.listed = true;
}

static void take_off(struct uncommitted *u, struct file *f)
{
	*(f->place.newer ? &f->place.newer->place.older : &u->newest) = f->place.older;
	*(f->place.older ? &f->place.older->place.newer : &u->oldest) = f->place.newer;
	f->place.listed = false;
}

void uncommitted_add(struct file *f)
{
	struct uncommitted *u = &f->fs->uncommitted;

	pthread_mutex_lock(&u->lock);
	if (!f->place.listed)
		add(u, f);
	pthread_mutex_unlock(&u->lock);
}

void uncommitted_remove(struct file *f)
{
	struct uncommitted *u = &f->fs->uncommitted;

	pthread_mutex_lock(&u->lock);
	if (f->place.listed)
		take_off(u, f);
	pthread_mutex_unlock(&u->lock);
}

struct file *uncommitted_pin_oldest(struct uncommitted *u, uint64_t ticket)
{
	pthread_mutex_lock(&u->lock);
	struct file *f = u->oldest;
	if (f && f->place.ticket >= ticket)
		f = NULL;
	if (f) {
		take_off(u, f);
		add(u, f);
		f->place.pins++;
	}
	pthread_mutex_unlock(&u->lock);
	return f;
}

void uncommitted_pin(struct file *f)
{
	struct uncommitted *u = &f->fs->uncommitted;

	pthread_mutex_lock(&u->lock);
	f->place.pins++;
	pthread_mutex_unlock(&u->lock);
}

void uncommitted_unpin(struct file *f)
{
	struct uncommitted *u = &f->fs->uncommitted;

	pthread_mutex_lock(&u->lock);
	assert(f->place.pins > 0);
	f->place.pins--;
	pthread_cond_broadcast(&u->unpinned);
	pthread_mutex_unlock(&u->lock); /* from now on *f may be gone */
}

uint64_t uncommitted_ticket(struct uncommitted *u)
{
	pthread_mutex_lock(&u->lock);
	uint64_t ticket = u->next_ticket;
	pthread_mutex_unlock(&u->lock);
	return ticket;
}

void uncommitted_wait_unpinned(struct file *f)
{
	struct uncommitted *u = &f->fs->uncommitted;

	pthread_mutex_lock(&u->lock);
	while (f->place.pins)
		pthread_cond_wait(&u->unpinned, &u->lock);
	pthread_mutex_unlock(&u->lock);
}

bool uncommitted_is_idle(struct file *f)
{
	struct uncommitted *u = &f->fs->uncommitted;

	pthread_mutex_lock(&u->lock);
	bool idle = !f->place.listed && !f->place.pins;
	pthread_mutex_unlock(&u->lock);
	return idle;
}
