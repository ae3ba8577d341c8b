#include "fs/inode/caps.h"

#include "base/clock.h"
#include "fs/inode/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SET_ID (S_ISUID | S_ISGID)

/* Notes the permissions, if our writes may remove bits of them. The lock is held. */
static void note_mode(struct caps *c, int fd)
{
	struct stat st;

	c->mode = fstat(fd, &st) == 0 && st.st_mode & SET_ID ? st.st_mode & 07777 : 0;
	if (c->mode) {
		c->uid = st.st_uid;
		c->gid = st.st_gid;
	}
}

void caps_note(struct inode *n, int fd)
{
	struct caps *c = &n->caps;

	pthread_mutex_lock(&c->lock);
	if (!c->writing) {
		note_mode(c, fd);
		struct span value = span_of(c->value, sizeof c->value);
		ssize_t len = c->told_none ? 0 : fd_getxattr(fd, CAPS_XATTR, value);
		c->n = len > 0 ? (size_t)len : 0;
		c->writing = true;
	}
	pthread_mutex_unlock(&c->lock);
}

bool caps_noted(struct inode *n)
{
	pthread_mutex_lock(&n->caps.lock);
	bool noted = n->caps.n > 0 || n->caps.mode;
	pthread_mutex_unlock(&n->caps.lock);
	return noted;
}

bool caps_known_none(const struct inode *n)
{
	return clock_read(CLOCK_MONOTONIC_COARSE) < n->caps.none_until;
}

/* The lock is held, here and in note_value. */
static int put_back(const struct caps *c, const char *path)
{
	if (!c->n || getxattr(path, CAPS_XATTR, NULL, 0) >= 0 || errno != ENODATA)
		return 0;
	return setxattr(path, CAPS_XATTR, c->value, c->n, 0) < 0 ? -errno : 1;
}

/*
 * The bits that our writes have removed. None, if another program has changed mode or owner
 * meanwhile.
 */
static mode_t lost_bits(const struct caps *c, const struct stat *st)
{
	mode_t lost = c->mode & SET_ID & ~st->st_mode;
	bool same = st->st_uid == c->uid && st->st_gid == c->gid;
	return same && ((st->st_mode & 07777) | lost) == c->mode ? lost : 0;
}

static bool put_bits_back(const struct caps *c, int fd)
{
	struct stat st;
	return c->mode && fstat(fd, &st) == 0 && lost_bits(c, &st) &&
	       fchmod(fd, c->mode) == 0;
}

int caps_put_back(struct inode *n, int fd)
{
	char path[FD_PATH_MAX];

	fd_proc_path(fd, path);
	pthread_mutex_lock(&n->caps.lock);
	bool bits = put_bits_back(&n->caps, fd);
	int rc = put_back(&n->caps, path);
	pthread_mutex_unlock(&n->caps.lock);
	return rc == 0 ? bits : rc;
}

void caps_forget(struct inode *n)
{
	pthread_mutex_lock(&n->caps.lock);
	n->caps.writing = false;
	n->caps.n = 0;
	n->caps.mode = 0;
	pthread_mutex_unlock(&n->caps.lock);
}

int caps_set_mode(struct inode *n, int fd, mode_t mode)
{
	char path[FD_PATH_MAX];
	int rc = 0;

	pthread_mutex_lock(&n->caps.lock);
	if (fchmod(fd, mode) < 0) { /* an open file needs no path */
		fd_proc_path(fd, path);
		rc = errno != EBADF || fchmodat(AT_FDCWD, path, mode, 0) < 0 ? -errno : 0;
	}
	if (rc >= 0 && n->caps.writing)
		note_mode(&n->caps, fd);
	pthread_mutex_unlock(&n->caps.lock);
	return rc;
}

int caps_set_owner(struct inode *n, int fd, uid_t uid, gid_t gid)
{
	const int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;

	pthread_mutex_lock(&n->caps.lock);
	int rc = fchownat(fd, "", uid, gid, flags) < 0 ? -errno : 0;
	if (rc >= 0 && n->caps.writing)
		note_mode(&n->caps, fd);
	pthread_mutex_unlock(&n->caps.lock);
	return rc;
}

void caps_show_mode(struct inode *n, struct stat *st)
{
	pthread_mutex_lock(&n->caps.lock);
	st->st_mode |= lost_bits(&n->caps, st);
	pthread_mutex_unlock(&n->caps.lock);
}

static void note_value(struct caps *c, struct view value)
{
	/* Longer ones than today's kernels have are not noted: only the backing file has them. */
	c->n = c->writing && value.n <= sizeof c->value ? value.n : 0;
	if (c->n)
		memcpy(c->value, value.p, c->n);
}

/* Notes what the kernel is told. The lock is held. */
static void tell(struct caps *c, bool none, uint64_t until)
{
	c->told_none = none;
	c->none_until = until;
}

int caps_set(struct inode *n, int fd, struct view value, int flags)
{
	char path[FD_PATH_MAX];

	fd_proc_path(fd, path);
	pthread_mutex_lock(&n->caps.lock);
	IGNORE(put_back(&n->caps, path)); /* `flags` depend on whether there are any */
	int rc = setxattr(path, CAPS_XATTR, value.p, value.n, flags) < 0 ? -errno : 0;
	if (rc >= 0) {
		note_value(&n->caps, value);
		tell(&n->caps, false, 0);
	}
	pthread_mutex_unlock(&n->caps.lock);
	return rc;
}

int caps_remove(struct inode *n, int fd)
{
	char path[FD_PATH_MAX];

	fd_proc_path(fd, path);
	pthread_mutex_lock(&n->caps.lock);
	bool noted = n->caps.n > 0;
	int rc = removexattr(path, CAPS_XATTR) < 0 ? -errno : 0;
	if (rc == -ENODATA && noted)
		rc = 0; /* our own writes removed them */
	if (rc >= 0 || rc == -ENODATA) {
		note_value(&n->caps, (struct view){NULL, 0});
		tell(&n->caps, true, 0); /* the kernel will not ask again */
	}
	pthread_mutex_unlock(&n->caps.lock);
	return rc;
}

ssize_t caps_get(struct inode *n, int fd, struct span dst, uint64_t keep_ns)
{
	struct caps *c = &n->caps;

	pthread_mutex_lock(&c->lock);
	ssize_t rc = (ssize_t)c->n;
	if (!c->n)
		rc = fd_getxattr(fd, CAPS_XATTR, dst);
	else if (dst.n && dst.n < c->n)
		rc = -ERANGE;
	else if (dst.n)
		memcpy(dst.p, c->value, c->n);
	if (rc == -ENODATA)
		tell(c, true, clock_read(CLOCK_MONOTONIC_COARSE) + keep_ns);
	pthread_mutex_unlock(&c->lock);
	return rc;
}
