/* The names of inodes. */
#include "fs/inode/impl.h"

#include "base/container.h"

static struct link *link_of(const struct treap_node *e)
{
	return e ? CONTAINER_OF(e, struct link, by_name) : NULL;
}

bool link_before(const struct treap_node *a, const struct treap_node *b)
{
	const struct link *x = link_of(a), *y = link_of(b);

	if (x->parent != y->parent)
		return (uintptr_t)x->parent < (uintptr_t)y->parent;
	return strcmp(x->backing, y->backing) < 0;
}

/* NULL: the inode is not known by that name. */
static struct link *link_find(struct inode *n, struct inode *parent, const char *backing)
{
	struct link key = {.parent = parent, .backing = backing};
	struct treap_node *e = treap_from(&n->names, &key.by_name);
	return e && !link_before(&key.by_name, e) ? link_of(e) : NULL;
}

static struct link *link_new(struct inode *n, struct inode *parent, const char *backing)
{
	size_t len = strlen(backing) + 1;
	struct link *l = mem_zalloc(sizeof *l + len);

	if (!l)
		return NULL;
	l->backing = memcpy(l + 1, backing, len);
	l->parent = parent;
	parent->refs++;
	treap_add(&n->names, &l->by_name);
	return l;
}

static void list_add(struct inode *n, struct link *l)
{
	l->next = n->links;
	l->at = &n->links;
	if (l->next)
		l->next->at = &l->next;
	n->links = l;
}

static void list_remove(struct link *l)
{
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
}

void table_link_add(struct inode *n, struct inode *parent, const char *backing)
{
	struct link *l = link_find(n, parent, backing);

	if (l)
		list_remove(l);
	else
		l = link_new(n, parent, backing);
	if (l) /* else only its descriptor, as long as that is open, reaches the inode */
		list_add(n, l);
}

/* Sets all of *by but the descriptor. */
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
	if (n != t->root) /* a bind mount may put it below itself, but it needs no name */
		table_link_add(n, parent, backing);
	pthread_mutex_unlock(&t->lock);
}

static void table_link_remove(struct inodes *t, struct inode *n, struct inode *parent,
			      const char *backing)
{
	struct link *l = link_find(n, parent, backing);

	if (!l)
		return;
	list_remove(l);
	treap_remove(&n->names, &l->by_name);
	table_put(t, l->parent, 1);
	mem_free(l);
}

void inode_link_remove(struct inodes *t, struct inode *n, struct inode *parent, const char *backing)
{
	pthread_mutex_lock(&t->lock);
	table_link_remove(t, n, parent, backing);
	table_unlock(t);
}

bool inode_link_check(struct inodes *t, struct inode *n, struct inode *parent, int dirfd,
		      const char *backing)
{
	struct stat st;

	/* first without the lock: this may ask another machine */
	if (fstatat(dirfd, backing, &st, AT_SYMLINK_NOFOLLOW) == 0 && inode_is_number(t, n, &st))
		return true;
	/*
	 * A request that has restored the name since tells the inode either before this look or
	 * after.
	 */
	pthread_mutex_lock(&t->lock);
	bool gone = fstatat(dirfd, backing, &st, AT_SYMLINK_NOFOLLOW) < 0 ? errno == ENOENT
									    : !table_is_of(n, &st);
	if (gone)
		table_link_remove(t, n, parent, backing);
	table_unlock(t);
	return !gone;
}

/* In this order: inodes_renames reads them in the opposite one. */
void inodes_rename_begin(struct inodes *t)
{
	atomic_fetch_add(&t->renaming, 1);
	atomic_fetch_add(&t->renames, 1);
}

void inodes_rename_end(struct inodes *t)
{
	atomic_fetch_sub(&t->renaming, 1);
}

unsigned inodes_renames(const struct inodes *t)
{
	unsigned n = atomic_load(&t->renames);
	return atomic_load(&t->renaming) ? 0 : n;
}

void inode_name(struct inodes *t, struct inode *n, char out[static NAME_MAX + 1])
{
	pthread_mutex_lock(&t->lock);
	strcpy(out, n->links ? n->links->backing : "");
	pthread_mutex_unlock(&t->lock);
}

/* Puts text in front of what begins at out[at]. Returns where it begins now. */
static size_t put_before(char *out, size_t at, const char *text, size_t len)
{
	memcpy(out + at - len, text, len);
	return at - len;
}

void inode_log_name(struct inodes *t, struct inode *n, char out[static INODE_LOG_NAME_MAX])
{
	size_t at = INODE_LOG_NAME_MAX - 1; /* the path grows towards the front */
	const struct inode *top = n;

	out[at] = 0;
	pthread_mutex_lock(&t->lock);
	for (; top->links; top = top->links->parent) {
		const char *name = top->links->backing;
		size_t len = strlen(name);
		if (len + sizeof ".../" > at) {
			at = put_before(out, at, ".../", 4);
			break;
		}
		if (out[at])
			out[--at] = '/';
		at = put_before(out, at, name, len);
	}
	pthread_mutex_unlock(&t->lock);
	memmove(out, out + at, INODE_LOG_NAME_MAX - at);
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
