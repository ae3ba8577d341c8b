#include "fs/inode/seen.h"

#include "base/meter.h"
#include "fs/inode/inode.h"

bool seen_any(const struct inode *n)
{
	return n->seen.st.st_ino;
}

bool seen_is_same(const struct inode *n, const struct stat *st)
{
	return seen_any(n) && n->seen.st.st_size == st->st_size &&
	       same_time(n->seen.st.st_mtim, st->st_mtim);
}

bool seen_holds(const struct inode *n, int fd)
{
	struct stat st;

	return stat_fd(fd, &st) == 0 && seen_is_same(n, &st);
}

/*
 * A new ctime alone means a chmod or a rename: no reason to reload, unless the content could not be
 * read.
 */
bool seen_is_foreign(const struct inode *n, const struct stat *st)
{
	return seen_any(n) && !n->times.pending &&
	       (!seen_is_same(n, st) || (n->seen.unsure && meter_now() >= n->seen.unsure) ||
		(n->seen.unread && !same_time(n->seen.st.st_ctim, st->st_ctim)));
}

bool seen_is_settled(const struct inode *n, const struct stat *st)
{
	return seen_is_same(n, st) && meter_now() >= n->seen.unsure;
}

void seen_ours(struct inode *n, const struct stat *st)
{
	n->seen.st = *st;
}

void seen_set(struct inode *n, const struct stat *st, bool doubt)
{
	n->seen.st = *st;
	n->seen.unsure = doubt ? meter_now() + BACKING_STEP_NS : 0;
}

void seen_note(struct inode *n, const struct stat *st)
{
	seen_set(n, st, !seen_is_settled(n, st) && backing_is_fresh(st->st_mtim));
}
