#include "fs/lease.h"

#include "fs/fs.h"

int lease_reopen(struct fs *fs, int fd, int flags)
{
	int got = backing_reopen(&fs->backing, fd, flags | O_NONBLOCK);

	if (got != -EAGAIN || flags & O_NONBLOCK)
		return got;
	bool relieved = relief_begin(&fs->relief);
	got = backing_reopen(&fs->backing, fd, flags);
	relief_end(&fs->relief, relieved);
	return got;
}
