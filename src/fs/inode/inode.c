#include "fs/inode/impl.h"

#include "base/meter.h"

#include <assert.h>
#include <limits.h>
#include <unistd.h>

bool table_is_of(const struct inode *n, const struct stat *st)
{
	return st->st_dev == n->key.dev && st->st_ino == n->key.ino &&
	       (st->st_mode & S_IFMT) == n->type;
}

/* Frees the names. A parent that loses its last reference is chained, for the caller's loop. */
static void links_free(struct inode *n, struct inode **orphans)
{
	while (n->links) {
		struct link *l = n->links;
		n->links = l->next;
		if (--l->parent->refs == 0) {
			l->parent->next_orphan = *orphans;
			*orphans = l->parent;
		}
		mem_free(l);
	}
}

static void detached_add(struct inodes *t, struct inode *n)
{
	n->next_detached = t->detached;
	n->detached_link = &t->detached;
	if (n->next_detached)
		n->next_detached->detached_link = &n->next_detached;
	t->detached = n;
}

static void detached_remove(struct inode *n)
{
	*n->detached_link = n->next_detached;
	if (n->next_detached)
		n->next_detached->detached_link = n->detached_link;
}

static void detach(struct inodes *t, struct inode *n)
{
	if (!n->detached) {
		HASH_DEL(t->table, n);
		detached_add(t, n);
	}
	n->detached = true;
}

static void erase(struct inodes *t, struct inode *n)
{
	assert(!n->file && n->pins == 0);
	if (!n->detached)
		HASH_DEL(t->table, n);
	else
		detached_remove(n);
	t->nfds -= n->fd >= 0;
	n->next_orphan = t->erased;
	t->erased = n;
}

void table_unlock(struct inodes *t)
{
	struct inode *next, *n = t->erased;

	t->erased = NULL;
	pthread_mutex_unlock(&t->lock);
	for (; n; n = next) {
		next = n->next_orphan;
		if (n->fd >= 0)
			close(n->fd);
		t->nameless -= n->nameless;
		pthread_mutex_destroy(&n->lock);
		pthread_mutex_destroy(&n->caps.lock);
		mem_free(n);
	}
}

void table_put(struct inodes *t, struct inode *n, uint64_t refs)
{
	struct inode *orphans = NULL;

	assert(n->refs >= refs);
	n->refs -= refs;
	if (n->refs > 0)
		return;
	for (;;) {
		table_fd_unlist(t, n);
		links_free(n, &orphans);
		erase(t, n);
		if (!orphans)
			return;
		n = orphans;
		orphans = n->next_orphan;
	}
}

int inodes_open(struct inodes **out, struct backing *b, unsigned long limit)
{
	struct inodes *t = mem_zalloc(sizeof *t);
	struct inode *root = mem_zalloc(sizeof *root);
	struct stat st;

	int rc = t && root ? stat_fd(b->root, &st) : -ENOMEM;
	int fd = rc < 0 ? -1 : fcntl(b->root, F_DUPFD_CLOEXEC, 3);
	if (rc >= 0 && fd < 0)
		rc = -errno;
	if (rc < 0) {
		mem_free(t);
		mem_free(root);
		return rc;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&root->lock, NULL);
	pthread_mutex_init(&root->caps.lock, NULL);
	t->backing = b;
	t->limit = (unsigned)min_u64(limit, INT_MAX);
	t->generation = (uint32_t)meter_now(); /* differs from those of an earlier mount, too */
	t->nfds = 1;
	t->renames = 1;
	t->root = root;
	root->key = (struct inode_key){st.st_dev, st.st_ino, NODE_PLAIN};
	root->type = S_IFDIR;
	root->refs = root->pins = 1;
	root->fd = fd;
	HASH_ADD(hh, t->table, key, sizeof root->key, root);
	*out = t;
	return 0;
}

static void erase_unused(struct inodes *t, struct inode *n)
{
	while (n->links) {
		struct link *l = n->links;
		n->links = l->next;
		mem_free(l);
	}
	n->pins = 0;
	n->promoted = false;
	erase(t, n);
}

/* At the end nothing is in use; what the kernel did not forget is freed, too. */
void inodes_close(struct inodes *t)
{
	if (!t)
		return;
	struct inode *n, *next;
	HASH_ITER(hh, t->table, n, next)
		erase_unused(t, n);
	while (t->detached)
		erase_unused(t, t->detached);
	pthread_mutex_lock(&t->lock);
	table_unlock(t);
	pthread_mutex_destroy(&t->lock);
	mem_free(t);
}

struct inode *inodes_root(struct inodes *t)
{
	return t->root;
}

static struct inode *find(struct inodes *t, const struct entry *e)
{
	struct inode_key key = {e->st.st_dev, e->st.st_ino, e->probed.kind};
	struct inode *n;

	HASH_FIND(hh, t->table, &key, sizeof key, n);
	return n;
}

static struct inode *add(struct inodes *t, const struct entry *e)
{
	struct inode *n = mem_zalloc(sizeof *n);
	if (!n)
		return NULL;
	n->key = (struct inode_key){e->st.st_dev, e->st.st_ino, e->probed.kind};
	n->type = e->st.st_mode & S_IFMT;
	n->generation = ++t->generation;
	n->fd = -1;
	n->attr_changes = 1;
	n->made = e->made;
	n->birth = e->birth;
	n->names.before = link_before;
	/* If the weights were predictable, chosen names could make the tree a list. */
	n->names.seed = (uint32_t)meter_now();
	HASH_ADD(hh, t->table, key, sizeof n->key, n);
	if (!n->hh.tbl) {
		mem_free(n);
		return NULL;
	}
	pthread_mutex_init(&n->lock, NULL);
	pthread_mutex_init(&n->caps.lock, NULL);
	return n;
}

struct inode *inode_from_entry(struct inodes *t, struct inode *parent, struct entry *e)
{
	pthread_mutex_lock(&t->lock);
	struct inode *n = find(t, e);
	if (!n)
		n = add(t, e);
	if (n) {
		n->refs++;
		if (n != t->root && *e->backing) /* O_TMPFILE: it has no name */
			table_link_add(n, parent, e->backing);
		if (n->fd < 0 && e->fd >= 0) {
			table_fd_give(t, n, e->fd, e->readable);
			e->fd = -1;
		}
	}
	pthread_mutex_unlock(&t->lock);
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
	return n;
}

struct inode *inode_known(struct inodes *t, const struct entry *e)
{
	pthread_mutex_lock(&t->lock);
	struct inode *n = find(t, e);
	if (n)
		n->refs++;
	pthread_mutex_unlock(&t->lock);
	return n;
}

bool inode_is_other(struct inodes *t, const struct inode *n, const struct entry *e)
{
	pthread_mutex_lock(&t->lock);
	uint64_t birth = n->fd < 0 ? n->birth : 0;
	pthread_mutex_unlock(&t->lock);
	if ((e->st.st_mode & S_IFMT) != n->type)
		return true;
	if (!birth) /* not known; or the file is open, so that its number is not reused */
		return false;
	return e->made || (e->birth && e->birth != birth);
}

bool inode_has_parted(struct inodes *t, const struct inode *n)
{
	struct stat st;

	pthread_mutex_lock(&t->lock);
	bool parted = n->fd >= 0 && n->links && n->links->next && stat_fd(n->fd, &st) == 0 &&
		      !table_is_of(n, &st);
	pthread_mutex_unlock(&t->lock);
	return parted;
}

bool inode_is_number(struct inodes *t, const struct inode *n, const struct stat *st)
{
	pthread_mutex_lock(&t->lock);
	bool is = table_is_of(n, st);
	pthread_mutex_unlock(&t->lock);
	return is;
}

enum node_kind inodes_open_kind(struct inodes *t, const struct stat *st)
{
	static const enum node_kind kinds[] = {NODE_FRAME, NODE_ARRAY};
	enum node_kind found = NODE_PLAIN;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; found == NODE_PLAIN && i < sizeof kinds / sizeof *kinds; i++) {
		struct inode_key key = {st->st_dev, st->st_ino, kinds[i]};
		struct inode *n;
		HASH_FIND(hh, t->table, &key, sizeof key, n);
		if (n && n->promoted) /* by the frame that is open on it */
			found = kinds[i];
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

void inode_detach(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	detach(t, n);
	pthread_mutex_unlock(&t->lock);
}

void inode_give_up(struct inodes *t, struct inode *n)
{
	n->kernel.mistaken = true;
	inode_detach(t, n);
}

bool inode_is_past(const struct inode *n)
{
	return n->detached && n->kernel.mistaken && n->nopen == 0;
}

static void chain_if_open(struct inode *n, struct inode **all)
{
	if (!n->handles && !n->file)
		return;
	n->next_open = *all;
	*all = n;
}

struct inode *inodes_all_open(struct inodes *t)
{
	struct inode *n, *all = NULL;

	pthread_mutex_lock(&t->lock);
	for (n = t->table; n; n = n->hh.next)
		chain_if_open(n, &all);
	for (n = t->detached; n; n = n->next_detached)
		chain_if_open(n, &all);
	pthread_mutex_unlock(&t->lock);
	return all;
}

void inode_get(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	n->refs++;
	pthread_mutex_unlock(&t->lock);
}

void inode_put(struct inodes *t, struct inode *n, uint64_t refs)
{
	pthread_mutex_lock(&t->lock);
	table_put(t, n, refs);
	table_unlock(t);
}

/* Only if a single name is known can it be sure that the new number is that name's. */
static bool give_number(struct inodes *t, struct inode *n, const struct stat *st, int fd)
{
	struct inode_key key = {st->st_dev, st->st_ino, n->key.kind};
	struct inode *other;

	HASH_FIND(hh, t->table, &key, sizeof key, other);
	if (n->links->next || other)
		return false;
	HASH_DEL(t->table, n);
	n->key = key;
	n->birth = backing_birth(fd);
	HASH_ADD(hh, t->table, key, sizeof n->key, n);
	if (!n->hh.tbl) { /* no memory */
		detached_add(t, n);
		n->detached = true;
	}
	return !n->detached;
}

int inode_renumber(struct inodes *t, struct inode *n, int fd)
{
	struct stat st;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	if (n->links && stat_fd(fd, &st) == 0 && !table_is_of(n, &st) &&
	    (n->detached || !give_number(t, n, &st, fd))) {
		detach(t, n);
		rc = -ESTALE;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static void lose_name(struct inodes *t, struct inode *n)
{
	t->nameless += !n->nameless;
	n->nameless = true;
}

void inodes_removed(struct inodes *t, const struct entry *e)
{
	pthread_mutex_lock(&t->lock);
	struct inode *n = find(t, e);
	if (n)
		lose_name(t, n);
	for (n = t->detached; n; n = n->next_detached)
		if (table_is_of(n, &e->st))
			lose_name(t, n);
	t->nameless_when = meter_now();
	pthread_mutex_unlock(&t->lock);
}

unsigned inodes_nameless(const struct inodes *t, uint64_t *when)
{
	*when = t->nameless_when;
	return t->nameless;
}
