/* The names of inodes. */
#include "fs/inode/impl.h"

static struct link **link_find(struct inode *n, const struct inode *parent, const char *backing)
{
	struct link **at = &n->links;
	while (*at && !((*at)->parent == parent && strcmp((*at)->backing, backing) == 0))
		at = &(*at)->next;
	return at;
}

void inodes_link_add(struct inode *n, struct inode *parent, const char *backing)
{
	struct link **at = link_find(n, parent, backing);
	struct link *l = *at;

	if (l) {
		*at = l->next;
	} else {
		size_t len = strlen(backing) + 1;
		l = mem_zalloc(sizeof *l + len);
		if (!l)
			return; /* the inode is reached by its descriptor as long as that is open */
		memcpy(l->backing, backing, len);
		l->parent = parent;
		parent->refs++;
	}
	l->next = n->links;
	n->links = l;
}

int inode_any_link(struct inodes *t, struct inode *n, struct inode **parent,
		   char backing[static NAME_MAX + 1])
{
	int rc = -ENOENT;

	pthread_mutex_lock(&t->lock);
	if (n->links) {
		*parent = n->links->parent;
		(*parent)->refs++;
		strcpy(backing, n->links->backing);
		rc = 0;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

void inode_link_add(struct inodes *t, struct inode *n, struct inode *parent, const char *backing)
{
	pthread_mutex_lock(&t->lock);
	inodes_link_add(n, parent, backing);
	pthread_mutex_unlock(&t->lock);
}

void inode_link_remove(struct inodes *t, struct inode *n, struct inode *parent, const char *backing)
{
	pthread_mutex_lock(&t->lock);
	struct link **at = link_find(n, parent, backing);
	struct link *l = *at;
	if (l) {
		*at = l->next;
		inodes_put(t, l->parent, 1);
		mem_free(l);
	}
	inodes_unlock(t);
}

/* In this order: has_lost_name (inode/fd.c) looks at them in the other. */
void inodes_rename_begin(struct inodes *t)
{
	atomic_fetch_add(&t->renaming, 1);
	atomic_fetch_add(&t->renames, 1);
}

void inodes_rename_end(struct inodes *t)
{
	atomic_fetch_sub(&t->renaming, 1);
}

void inode_name(struct inodes *t, struct inode *n, char out[static NAME_MAX + 1])
{
	pthread_mutex_lock(&t->lock);
	strcpy(out, n->links ? n->links->backing : "");
	pthread_mutex_unlock(&t->lock);
}
