#include "fs/inode_impl.h"

#include "base/meter.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

/* The LRU list holds exactly the inodes with fd >= 0, no pins and no open frame. */
static void lru_add(struct inodes *t, struct inode *n)
{
	n->lru_older = t->newest;
	n->lru_newer = NULL;
	*(t->newest ? &t->newest->lru_newer : &t->oldest) = n;
	t->newest = n;
}

static void lru_remove(struct inodes *t, struct inode *n)
{
	*(n->lru_newer ? &n->lru_newer->lru_older : &t->newest) = n->lru_older;
	*(n->lru_older ? &n->lru_older->lru_newer : &t->oldest) = n->lru_newer;
}

static bool is_of(const struct inode *n, const struct stat *st)
{
	return st->st_dev == n->key.dev && st->st_ino == n->key.ino;
}

static bool evictable(const struct inode *n)
{
	return n->fd >= 0 && n->pins == 0 && !n->promoted;
}

static void pin(struct inodes *t, struct inode *n)
{
	if (evictable(n))
		lru_remove(t, n);
	n->pins++;
}

/* From here on its number may be given to another file, which is told from it by its birth. */
static void fd_close(struct inodes *t, struct inode *n)
{
	close(n->fd);
	n->readable = false;
	n->fd = -1;
	t->nfds--;
}

static void trim_fds(struct inodes *t, unsigned max)
{
	struct inode *n = t->oldest;

	while (t->nfds > max && n) {
		struct inode *next = n->lru_newer;
		if (n->links) { /* without a name it could never be opened again */
			lru_remove(t, n);
			fd_close(t, n);
		}
		n = next;
	}
}

static void unpin(struct inodes *t, struct inode *n)
{
	assert(n->pins > 0);
	n->pins--;
	if (evictable(n)) {
		lru_add(t, n);
		trim_fds(t, t->max_fds);
	}
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

void inodes_unlock(struct inodes *t)
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

void inodes_put(struct inodes *t, struct inode *n, uint64_t refs)
{
	struct inode *orphans = NULL;

	assert(n->refs >= refs);
	n->refs -= refs;
	if (n->refs > 0)
		return;
	for (;;) {
		if (evictable(n))
			lru_remove(t, n);
		links_free(n, &orphans);
		erase(t, n);
		if (!orphans)
			return;
		n = orphans;
		orphans = n->next_orphan;
	}
}

int inodes_open(struct inodes **out, struct backing *b, unsigned max_fds)
{
	struct inodes *t = mem_zalloc(sizeof *t);
	struct inode *root = mem_zalloc(sizeof *root);
	struct stat st;

	int rc = t && root ? stat_fd(b->root, &st) : -ENOMEM;
	int fd = rc < 0 ? rc : fcntl(b->root, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		mem_free(t);
		mem_free(root);
		return rc < 0 ? rc : -errno;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&root->lock, NULL);
	pthread_mutex_init(&root->caps.lock, NULL);
	t->backing = b;
	t->max_fds = max_fds;
	t->nfds = 1;
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

/* At the end nothing is in use any more; what the kernel did not forget goes too. */
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
	inodes_unlock(t);
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
	n->fd = -1;
	n->attr_changes = 1;
	n->made = e->made;
	n->birth = e->birth;
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
		if (n != t->root)
			inodes_link_add(n, parent, e->backing);
		if (n->fd < 0 && e->fd >= 0) {
			n->fd = e->fd;
			n->readable = e->readable;
			e->fd = -1;
			t->nfds++;
			lru_add(t, n);
			trim_fds(t, t->max_fds);
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
	if (!birth || e->made)
		return birth;
	return e->birth && e->birth != birth;
}

bool inode_has_parted(struct inodes *t, const struct inode *n)
{
	struct stat st;

	pthread_mutex_lock(&t->lock);
	bool parted = n->fd >= 0 && n->links && n->links->next && stat_fd(n->fd, &st) == 0 &&
		      !is_of(n, &st);
	pthread_mutex_unlock(&t->lock);
	return parted;
}

bool inode_is_number(struct inodes *t, const struct inode *n, const struct stat *st)
{
	pthread_mutex_lock(&t->lock);
	bool is = is_of(n, st);
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

struct inode *inodes_any_open(struct inodes *t)
{
	struct inode *n;

	pthread_mutex_lock(&t->lock);
	for (n = t->table; n && !n->handles; n = n->hh.next)
		;
	for (n = n ? n : t->detached; n && !n->handles; n = n->next_detached)
		;
	pthread_mutex_unlock(&t->lock);
	return n;
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
	inodes_put(t, n, refs);
	inodes_unlock(t);
}

/* Opens by the newest name. Not under the lock: it may have to open the parents first. */
static int open_by_name(struct inodes *t, struct inode *n)
{
	char name[NAME_MAX + 1];
	struct inode *parent;
	struct stat st;
	uint64_t birth;

	if (inode_any_link(t, n, &parent, name) < 0)
		return -ESTALE;
	int fd = inode_pin(t, parent);
	if (fd >= 0) {
		fd = backing_find(t->backing, fd, name, &st, &birth);
		inode_unpin(t, parent);
	}
	inode_put(t, parent, 1);
	if (fd >= 0 && !inode_is_number(t, n, &st)) {
		close(fd);
		return -ESTALE;
	}
	return fd == -ENOENT ? -ESTALE : fd;
}

int inode_pin(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	if (n->fd < 0) {
		pthread_mutex_unlock(&t->lock);
		int fd = open_by_name(t, n);
		if (fd == -EMFILE) {
			pthread_mutex_lock(&t->lock);
			trim_fds(t, t->nfds / 2);
			pthread_mutex_unlock(&t->lock);
			fd = open_by_name(t, n);
		}
		TRY(fd);
		pthread_mutex_lock(&t->lock);
		if (n->fd < 0) {
			n->fd = fd;
			t->nfds++;
			lru_add(t, n);
		} else {
			close(fd); /* another thread was faster */
		}
	}
	pin(t, n);
	int fd = n->fd;
	pthread_mutex_unlock(&t->lock);
	return fd;
}

void inode_unpin(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	unpin(t, n);
	pthread_mutex_unlock(&t->lock);
}

/*
 * By its newest name, which is cheaper than the way through /proc. A failure may have any reason.
 */
static int reopen_by_name(struct inodes *t, struct inode *n, int flags)
{
	char name[NAME_MAX + 1];
	struct inode *parent;
	struct stat st;
	int real = -1;

	TRY(inode_any_link(t, n, &parent, name));
	int dirfd = inode_pin(t, parent);
	if (dirfd >= 0) {
		real = openat(dirfd, name,
			      flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME | O_CLOEXEC);
		inode_unpin(t, parent);
	}
	inode_put(t, parent, 1);
	if (real >= 0 && (stat_fd(real, &st) < 0 || !inode_is_number(t, n, &st))) {
		close(real);
		return -ESTALE;
	}
	return real;
}

/* Only a name that alone is known to lead to the file is sure to be that of its new number. */
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
	if (n->links && stat_fd(fd, &st) == 0 && !is_of(n, &st) &&
	    (n->detached || !give_number(t, n, &st, fd))) {
		detach(t, n);
		rc = -ESTALE;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

/* What looked the file up has opened it to read it already. */
static int promote_reader(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	int fd = n->readable ? n->fd : -1;
	if (fd >= 0) {
		if (evictable(n))
			lru_remove(t, n);
		n->promoted = true;
	}
	pthread_mutex_unlock(&t->lock);
	return fd;
}

/* Called with n->lock held by whoever opens the frame: one promotion at a time. */
int inode_promote(struct inodes *t, struct inode *n, int flags)
{
	int named = flags == O_RDONLY ? promote_reader(t, n) : -1;
	if (named >= 0)
		return named;
	named = reopen_by_name(t, n, flags);
	if (named >= 0)
		return inode_promote_to_take(t, n, named);
	int fd = inode_pin(t, n);
	TRY(fd);
	int real = backing_reopen(t->backing, fd, flags);
	if (real == -EMFILE) {
		pthread_mutex_lock(&t->lock);
		trim_fds(t, t->nfds / 2);
		pthread_mutex_unlock(&t->lock);
		real = backing_reopen(t->backing, fd, flags);
	}
	int rc = real < 0 ? real : inode_renumber(t, n, real);
	if (rc >= 0)
		inode_promote_to_take(t, n, real);
	else if (real >= 0)
		close(real);
	inode_unpin(t, n);
	return rc < 0 ? rc : fd;
}

/*
 * dup3 changes the file behind the number at once:
 * whoever has it pinned, or open, is not disturbed.
 */
int inode_promote_to_take(struct inodes *t, struct inode *n, int fd)
{
	pthread_mutex_lock(&t->lock);
	if (evictable(n)) {
		lru_remove(t, n);
		fd_close(t, n);
	}
	if (n->fd < 0) {
		n->fd = fd;
		t->nfds++;
	} else {
		dup3(fd, n->fd, O_CLOEXEC);
		close(fd);
		fd = n->fd;
	}
	n->readable = false; /* whether it reads or writes: inode_demote closes it */
	n->promoted = true;
	pthread_mutex_unlock(&t->lock);
	return fd;
}

void inode_demote(struct inodes *t, struct inode *n)
{
	char name[16];

	pthread_mutex_lock(&t->lock);
	assert(n->promoted);
	n->promoted = false;
	if (!n->readable && n->links && n->pins == 0) {
		fd_close(t, n); /* who wants it again opens it by its name */
		pthread_mutex_unlock(&t->lock);
		return;
	}
	snprintf(name, sizeof name, "%d", n->fd);
	int fd = n->readable ? -1 : openat(t->backing->proc, name, O_PATH | O_CLOEXEC);
	if (fd >= 0) {
		dup3(fd, n->fd, O_CLOEXEC);
		close(fd);
	}
	if (evictable(n)) {
		lru_add(t, n);
		trim_fds(t, t->max_fds);
	}
	pthread_mutex_unlock(&t->lock);
}

void inode_nameless(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	t->nameless += !n->nameless;
	n->nameless = true;
	t->nameless_when = meter_now();
	pthread_mutex_unlock(&t->lock);
}

unsigned inodes_nameless(const struct inodes *t, uint64_t *when)
{
	*when = t->nameless_when;
	return t->nameless;
}

void inode_keep_take(struct inodes *t, struct inode *n, int fd)
{
	pthread_mutex_lock(&t->lock);
	if (n->fd < 0) {
		n->fd = fd;
		t->nfds++;
		lru_add(t, n);
		fd = -1;
	}
	pthread_mutex_unlock(&t->lock);
	if (fd >= 0)
		close(fd);
}
