#include "mounts.h"

#include "frame/names.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

bool is_mount_point(void *arg, int dir)
{
	return fgetxattr(dir, MOUNT_STATS, NULL, 0) >= 0;
}

bool has_daemon(void *arg, int dir)
{
	bool locked = flock(dir, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	if (!locked)
		(void)flock(dir, LOCK_UN);
	return locked;
}

bool has_unapplied_log(void *arg, int dir)
{
	struct stat st;
	return fstatat(dir, NAMES_INTENT, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size;
}

/*
 * Opens the directory above. One that may not be read, such as the parent of home directories,
 * tells nothing, but does not hide what is above it.
 */
static int open_above(int dir)
{
	int above = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (above < 0 && errno == EACCES)
		above = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return above;
}

bool any_above(int dir, bool (*is_so)(void *arg, int dir), void *arg)
{
	struct stat here, below = {0};
	int at = dir;
	bool found = false;

	while (!found && at >= 0 && fstat(at, &here) == 0 && here.st_ino != below.st_ino &&
	       (at == dir || here.st_dev == below.st_dev)) {
		found = is_so(arg, at);
		int above = open_above(at);
		if (at != dir)
			close(at);
		at = above;
		below = here;
	}
	if (at >= 0 && at != dir)
		close(at);
	return found;
}
