/* The descriptors of inodes. */
#include "fs/inode/impl.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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
	n->lru_newer = n->lru_older = NULL;
}

static bool is_listed(const struct inodes *t, const struct inode *n)
{
	return n->lru_newer || t->newest == n;
}

/*
 * The LRU list holds exactly the inodes with a descriptor, no pins and no open frame: call this
 * when one of the three has changed. True: the inode was added; there may be too many by now.
 */
static bool lru_update(struct inodes *t, struct inode *n)
{
	bool evictable = n->fd >= 0 && n->pins == 0 && !n->promoted;

	if (evictable == is_listed(t, n))
		return false;
	if (evictable)
		lru_add(t, n);
	else
		lru_remove(t, n);
	return evictable;
}

static void pin(struct inodes *t, struct inode *n)
{
	n->pins++;
	lru_update(t, n);
}

/* For an inode that has no descriptor. */
static bool fd_give(struct inodes *t, struct inode *n, int fd, bool readable)
{
	assert(n->fd < 0);
	n->fd = fd;
	n->readable = readable;
	t->nfds++;
	return lru_update(t, n);
}

/* From here on its inode number may be reused by another file, which n->birth tells from it. */
static int fd_take(struct inodes *t, struct inode *n)
{
	int fd = n->fd;

	n->readable = false;
	n->fd = -1;
	t->nfds--;
	lru_update(t, n);
	return fd;
}

static void fd_close(struct inodes *t, struct inode *n)
{
	close(fd_take(t, n));
}

/* Closes the least recently used ones, until there are `max` or no others may be closed. */
static void trim_fds(struct inodes *t, unsigned max)
{
	struct inode *n = t->oldest;

	while (t->nfds > max && n) {
		struct inode *next = n->lru_newer;
		if (n->links) /* without a name it could never be opened again */
			fd_close(t, n);
		n = next;
	}
}

/* After -EMFILE: other parts of the process have taken what was left. */
static void give_up_half(struct inodes *t)
{
	pthread_mutex_lock(&t->lock);
	trim_fds(t, t->nfds / 2);
	pthread_mutex_unlock(&t->lock);
}

/*
 * Reserved descriptors: OWN for what the daemon itself has open, which is one for each thread that
 * serves requests and some others; and up to BRIEF_MOST for what requests open briefly.
 */
#define OWN 32
#define BRIEF_MOST 224

/* No more descriptors of unused files are kept open than this: closing them takes time, too. */
#define UNUSED_MOST (1u << 16)

/* How many descriptors may stay open. */
static unsigned most_that_stay(const struct inodes *t)
{
	unsigned reserved = OWN + (unsigned)min_u64(t->limit / 8, BRIEF_MOST);
	return t->limit > reserved ? t->limit - reserved : 1;
}

/* Called under the lock, after the number of descriptors has grown. */
static void trim_unused(struct inodes *t)
{
	unsigned most = most_that_stay(t), rest = most > t->others ? most - t->others : 0;
	trim_fds(t, (unsigned)min_u64(rest, min_u64(t->limit / 4, UNUSED_MOST)));
}

unsigned inodes_limit(const struct inodes *t)
{
	return t->limit;
}

/* Makes room for one more, so that there are at most `most` of all kinds. */
static int room_for_one(struct inodes *t, unsigned most)
{
	pthread_mutex_lock(&t->lock);
	trim_fds(t, most > t->others ? most - t->others - 1 : 0);
	bool room = t->nfds + t->others < most;
	pthread_mutex_unlock(&t->lock);
	return room ? 0 : -EMFILE;
}

int inodes_room_for_file(struct inodes *t)
{
	return room_for_one(t, most_that_stay(t));
}

int inodes_room_for_dir(struct inodes *t)
{
	unsigned most = most_that_stay(t);
	return room_for_one(t, most + (t->limit - most) / 4);
}

void inodes_others_add(struct inodes *t, int by)
{
	pthread_mutex_lock(&t->lock);
	t->others += (unsigned)by;
	trim_unused(t);
	pthread_mutex_unlock(&t->lock);
}

static void unpin(struct inodes *t, struct inode *n)
{
	assert(n->pins > 0);
	n->pins--;
	if (lru_update(t, n))
		trim_unused(t);
}

void table_fd_give(struct inodes *t, struct inode *n, int fd, bool readable)
{
	if (fd_give(t, n, fd, readable))
		trim_unused(t);
}

void table_fd_unlist(struct inodes *t, struct inode *n)
{
	if (is_listed(t, n))
		lru_remove(t, n);
}

/*
 * 1: *fd is open. 0: the name does not exist, or is that of another file; its directory could be
 * opened.
 */
static int try_name(struct inodes *t, struct inode *n, int *fd)
{
	struct named by;
	struct stat st;
	uint64_t birth;

	TRY(inode_enter_name(t, n, &by));
	*fd = backing_find(t->backing, by.dirfd, by.name, &st, &birth);
	inode_leave_name(t, &by);
	if (*fd < 0)
		return *fd == -ENOENT ? 0 : *fd;
	if (inode_is_number(t, n, &st))
		return 1;
	close(*fd);
	return 0;
}

/* A request that changes a name may take some 50 ms to tell the inode. */
#define TRIES 50
#define NAP_MAX CLOCK_MS

static int open_by_name(struct inodes *t, struct inode *n)
{
	uint64_t nap = CLOCK_NAP;

	for (int i = 0; i < TRIES; i++) {
		unsigned before = inodes_renames(t);
		int fd, rc = try_name(t, n, &fd);
		if (rc != 0)
			return rc < 0 ? rc : fd;
		if (before && inodes_renames(t) == before)
			break;
		clock_nap(&nap, NAP_MAX);
	}
	return -ESTALE;
}

/* Up to this many levels without a descriptor are opened by recursion. */
#define LEVELS 32

/*
 * For more levels than that, sets *out to the inode half way up to the first one with a descriptor,
 * with a reference; else to NULL. -ESTALE: another program has moved directories, so that by the
 * names that we know two of them are below each other.
 */
static int half_way(struct inodes *t, struct inode *n, struct inode **out)
{
	struct inode *half = n, *up = n;
	unsigned levels = 0;
	bool circle = false;

	pthread_mutex_lock(&t->lock);
	while (!circle && up->fd < 0 && up->links) {
		up = up->links->parent;
		if (++levels % 2 == 0)
			half = half->links->parent;
		circle = up == half;
	}
	*out = !circle && levels > LEVELS ? half : NULL;
	if (*out)
		half->refs++;
	pthread_mutex_unlock(&t->lock);
	return circle ? -ESTALE : 0;
}

/* A tree may be deeper than a thread's stack allows to recurse: opens half of the levels first. */
static int open_deep(struct inodes *t, struct inode *n)
{
	struct inode *half;

	TRY(half_way(t, n, &half));
	if (!half)
		return open_by_name(t, n);
	int fd = inode_pin(t, half);
	if (fd >= 0) {
		fd = open_deep(t, n);
		inode_unpin(t, half);
	}
	inode_put(t, half, 1);
	return fd;
}

int inode_pin(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	if (n->fd < 0) {
		pthread_mutex_unlock(&t->lock);
		int fd = open_deep(t, n);
		if (fd == -EMFILE) {
			give_up_half(t);
			fd = open_deep(t, n);
		}
		TRY(fd);
		pthread_mutex_lock(&t->lock);
		if (n->fd < 0)
			fd_give(t, n, fd, false);
		else
			close(fd); /* another thread was faster */
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

int inode_pin_reader(struct inodes *t, struct inode *n)
{
	int fd = inode_pin(t, n);
	TRY(fd);
	pthread_mutex_lock(&t->lock);
	bool readable = n->readable;
	pthread_mutex_unlock(&t->lock);
	int reader = readable ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (reader < 0)
		return fd;
	pthread_mutex_lock(&t->lock);
	n->readable = dup3(reader, fd, O_CLOEXEC) == fd;
	pthread_mutex_unlock(&t->lock);
	close(reader);
	return fd;
}

/*
 * Opens it by its newest name, which is cheaper than through /proc. That remains as the fallback
 * after any failure, even -ESTALE: the file has lost its name.
 */
static int reopen_by_name(struct inodes *t, struct inode *n, int flags)
{
	struct named by;
	struct stat st;

	TRY(inode_enter_name(t, n, &by));
	int real = openat(by.dirfd, by.name,
			  flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME | O_CLOEXEC);
	real = real < 0 ? -errno : real;
	inode_leave_name(t, &by);
	if (real >= 0 && (stat_fd(real, &st) < 0 || !inode_is_number(t, n, &st))) {
		close(real);
		return -ESTALE;
	}
	return real;
}

/*
 * True: another program has given the newest name to another file, or removed it. False if that may
 * have been a request of ours, which tells the inode only afterwards.
 */
static bool has_lost_name(struct inodes *t, struct inode *n)
{
	struct named by;
	struct stat st;

	unsigned before = inodes_renames(t);
	if (!before || inode_enter_name(t, n, &by) < 0)
		return false;
	bool lost = fstatat(by.dirfd, by.name, &st, AT_SYMLINK_NOFOLLOW) < 0
			    ? errno == ENOENT
			    : !inode_is_number(t, n, &st);
	inode_leave_name(t, &by);
	return lost && inodes_renames(t) == before;
}

bool inode_was_replaced(struct inodes *t, struct inode *n)
{
	pthread_mutex_lock(&t->lock);
	bool open = n->promoted;
	pthread_mutex_unlock(&t->lock);
	return open && has_lost_name(t, n);
}

/*
 * 1: the lookup has already opened the file for reading, as *fd. 0: it has not. -ESTALE: the open
 * is meant for the file that has the name by now, which the kernel then looks up.
 */
static int promote_reader(struct inodes *t, struct inode *n, int *fd)
{
	pthread_mutex_lock(&t->lock);
	bool readable = n->readable;
	*fd = n->fd;
	if (readable)
		pin(t, n);
	pthread_mutex_unlock(&t->lock);
	if (!readable)
		return 0;
	bool lost = has_lost_name(t, n);
	pthread_mutex_lock(&t->lock);
	n->promoted = !lost;
	unpin(t, n);
	pthread_mutex_unlock(&t->lock);
	return lost ? -ESTALE : 1;
}

/* Uses the descriptor that it has, or gets one. Does not wait for a lease: n->lock is held. */
static int promote_by_proc(struct inodes *t, struct inode *n, int flags)
{
	flags |= O_NONBLOCK;
	int fd = inode_pin(t, n);
	TRY(fd);
	int real = backing_reopen(t->backing, fd, flags);
	if (real == -EMFILE) {
		give_up_half(t);
		real = backing_reopen(t->backing, fd, flags);
	}
	int rc = real < 0 ? real : inode_renumber(t, n, real);
	if (rc >= 0 && has_lost_name(t, n))
		rc = -ESTALE; /* what is written would be lost with the old file */
	if (rc >= 0)
		inode_promote_to_take(t, n, real);
	else if (real >= 0)
		close(real);
	inode_unpin(t, n);
	return rc < 0 ? rc : fd;
}

int inode_promote(struct inodes *t, struct inode *n, int flags)
{
	int fd, rc = flags == O_RDONLY ? promote_reader(t, n, &fd) : 0;
	if (rc)
		return rc < 0 ? rc : fd;
	int real = reopen_by_name(t, n, flags);
	return real >= 0 ? inode_promote_to_take(t, n, real) : promote_by_proc(t, n, flags);
}

/*
 * dup3 replaces the open file behind the number atomically: users that have it pinned, or open, are
 * not disturbed.
 */
int inode_promote_to_take(struct inodes *t, struct inode *n, int fd)
{
	pthread_mutex_lock(&t->lock);
	if (is_listed(t, n))
		fd_close(t, n);
	n->promoted = true;
	if (n->fd < 0) {
		fd_give(t, n, fd, false);
	} else {
		dup3(fd, n->fd, O_CLOEXEC);
		close(fd);
		fd = n->fd;
	}
	n->readable = false; /* even if it can read: inode_demote closes it */
	pthread_mutex_unlock(&t->lock);
	return fd;
}

void inode_demote(struct inodes *t, struct inode *n)
{
	char name[16];

	pthread_mutex_lock(&t->lock);
	assert(n->promoted);
	n->promoted = false;
	/* A detached inode is not told when it loses its name; the kernel may yet set its times. */
	if (!n->readable && n->links && !n->detached && n->pins == 0) {
		int real = fd_take(t, n); /* the next use opens it by its name */
		pthread_mutex_unlock(&t->lock);
		close(real); /* after writes, this may take the backing file system a while */
		return;
	}
	snprintf(name, sizeof name, "%d", n->fd);
	int fd = n->readable ? -1 : openat(t->backing->proc, name, O_PATH | O_CLOEXEC);
	if (fd >= 0) {
		dup3(fd, n->fd, O_CLOEXEC);
		close(fd);
	}
	if (lru_update(t, n))
		trim_unused(t);
	pthread_mutex_unlock(&t->lock);
}

void inode_keep_take(struct inodes *t, struct inode *n, int fd)
{
	pthread_mutex_lock(&t->lock);
	bool other = n->links && !t->backing->numbers_last;
	if (other && is_listed(t, n)) {
		fd_close(t, n);
	} else if (!other && n->fd < 0) {
		table_fd_give(t, n, fd, false);
		fd = -1;
	}
	pthread_mutex_unlock(&t->lock);
	if (fd >= 0)
		close(fd);
}
