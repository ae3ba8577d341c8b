/*
 * Which files the kernel may forget. Inodes are looked at in the order in which they became known,
 * again and again.
 */
#include "fs/inode/impl.h"

#include <stdio.h>

#define LOOKED_MOST 4096 /* at a time, since the table is locked */

uint64_t inodes_count(struct inodes *t)
{
	pthread_mutex_lock(&t->lock);
	uint64_t n = HASH_COUNT(t->table);
	pthread_mutex_unlock(&t->lock);
	return n;
}

bool inodes_await_crowd(struct inodes *t)
{
	pthread_mutex_lock(&t->lock);
	while (!t->alone && HASH_COUNT(t->table) <= t->most)
		pthread_cond_wait(&t->crowded, &t->lock);
	bool crowded = !t->alone;
	pthread_mutex_unlock(&t->lock);
	return crowded;
}

void inodes_end_crowd(struct inodes *t)
{
	pthread_mutex_lock(&t->lock);
	t->alone = true;
	pthread_cond_broadcast(&t->crowded);
	pthread_mutex_unlock(&t->lock);
}

/* An inode whose lock is taken is in use. */
static bool is_idle(struct inode *n)
{
	if (!n->links || S_ISDIR(n->type) || n->pins || n->promoted ||
	    pthread_mutex_trylock(&n->lock) != 0)
		return false;
	bool idle = !n->file && !n->nopen && !n->handles && !n->push && !n->entering;
	pthread_mutex_unlock(&n->lock);
	return idle;
}

static void note_name(struct old_name *o, const struct inode *n, const struct link *l)
{
	o->inode = n;
	o->parent = l->parent;
	o->parent->refs++;
	o->kind = (enum node_kind)n->key.kind;
	snprintf(o->backing, sizeof o->backing, "%s", l->backing);
}

/* All names of an inode, since the kernel remembers it as long as it does any of them. */
unsigned inodes_pick_old(struct inodes *t, struct old_name *out, unsigned n)
{
	unsigned found = 0;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < LOOKED_MOST && found < n; i++) {
		struct inode *old = t->hand ? t->hand : t->table;
		t->hand = old->hh.next;
		if (!is_idle(old))
			continue;
		for (const struct link *l = old->links; l && found < n; l = l->next)
			note_name(&out[found++], old, l);
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}
