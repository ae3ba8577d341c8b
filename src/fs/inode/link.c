/* The names of inodes. */
#include "fs/inode/impl.h"

static struct link **link_find(struct inode *n, const struct inode *parent, const char *backing)
{
	struct link **at = &n->links;
	while (*at && !((*at)->parent == parent && strcmp((*at)->backing, backing) == 0))
		at = &(*at)->next;
	return at;
}

void table_link_add(struct inode *n, struct inode *parent, const char *backing)
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

/* All but the descriptor. */
static bool newest_link(struct inodes *t, struct inode *n, struct named *by)
{
	pthread_mutex_lock(&t->lock);
	bool there = n->links;
	if (there) {
		by->parent = n->links->parent;
		by->parent->refs++;
		strcpy(by->name, n->links->backing);
	}
	pthread_mutex_unlock(&t->lock);
	return there;
}

int inode_enter_name(struct inodes *t, struct inode *n, struct named *by)
{
	if (!newest_link(t, n, by))
		return -ESTALE;
	by->dirfd = inode_pin(t, by->parent);
	if (by->dirfd < 0)
		inode_put(t, by->parent, 1);
	return by->dirfd < 0 ? by->dirfd : 0;
}

void inode_leave_name(struct inodes *t, const struct named *by)
{
	inode_unpin(t, by->parent);
	inode_put(t, by->parent, 1);
}

void inode_link_add(struct inodes *t, struct inode *n, struct inode *parent, const char *backing)
{
	pthread_mutex_lock(&t->lock);
	table_link_add(n, parent, backing);
	pthread_mutex_unlock(&t->lock);
}

void inode_link_remove(struct inodes *t, struct inode *n, struct inode *parent, const char *backing)
{
	pthread_mutex_lock(&t->lock);
	struct link **at = link_find(n, parent, backing);
	struct link *l = *at;
	if (l) {
		*at = l->next;
		table_put(t, l->parent, 1);
		mem_free(l);
	}
	table_unlock(t);
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

void inode_log_name(struct inodes *t, struct inode *n, char out[static NAME_MAX + 1])
{
	inode_name(t, n, out);
	if (!out[0])
		strcpy(out, n == t->root ? "(root directory)" : "(deleted file)");
}

bool inode_is_deeper(struct inodes *t, const struct inode *n, unsigned most)
{
	pthread_mutex_lock(&t->lock);
	for (; n->links && most; most--)
		n = n->links->parent;
	bool deeper = n->links;
	pthread_mutex_unlock(&t->lock);
	return deeper;
}
