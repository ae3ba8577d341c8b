#include "fs/inode/seen.h"

#include "base/meter.h"
#include "fs/inode/inode.h"

bool seen_is_same(const struct inode *n, const struct stat *st)
{
	return n->seen.st.st_ino && n->seen.st.st_size == st->st_size &&
	       same_time(n->seen.st.st_mtim, st->st_mtim);
}

/*
 * A new ctime alone means a chmod or a rename: no reason to reload, unless the content could not be
 * read.
 */
bool seen_is_foreign(const struct inode *n, const struct stat *st)
{
	return n->seen.st.st_ino && !n->times.pending &&
	       (!seen_is_same(n, st) || (n->seen.unsure && meter_now() >= n->seen.unsure) ||
		(n->seen.unread && !same_time(n->seen.st.st_ctim, st->st_ctim)));
}

bool seen_is_settled(const struct inode *n, const struct stat *st)
{
	return seen_is_same(n, st) && meter_now() >= n->seen.unsure;
}

void seen_note(struct inode *n, const struct stat *st)
{
	bool doubt = !seen_is_settled(n, st) && backing_is_fresh(st->st_mtim);

	n->seen.unsure = doubt ? meter_now() + BACKING_STEP_NS : 0;
	n->seen.st = *st;
}
