#include "fs/sidecar/name.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool sidecar_name(const char *backing, char out[static NAME_MAX + 1])
{
	int n = snprintf(out, NAME_MAX + 1, "%s.b2lock", backing);
	return n > 0 && n <= NAME_MAX;
}

/*
 * What has the name of a sidecar. Anything but a regular file is not hidden, and belongs to
 * somebody else.
 */
enum sidecar_place { PLACE_FREE, PLACE_SIDECAR, PLACE_OTHERS };

static enum sidecar_place look_for(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return PLACE_FREE;
	return S_ISREG(st.st_mode) ? PLACE_SIDECAR : PLACE_OTHERS;
}

void sidecar_rename(int dirfd, const char *from, int to_dirfd, const char *to)
{
	char name[NAME_MAX + 1], to_name[NAME_MAX + 1];

	if (sidecar_name(from, name) && sidecar_name(to, to_name) &&
	    look_for(dirfd, name) == PLACE_SIDECAR && look_for(to_dirfd, to_name) != PLACE_OTHERS)
		(void)renameat(dirfd, name, to_dirfd, to_name);
}

void sidecar_exchange(int a_dirfd, const char *a, int b_dirfd, const char *b)
{
	char a_name[NAME_MAX + 1], b_name[NAME_MAX + 1];

	if (!sidecar_name(a, a_name) || !sidecar_name(b, b_name))
		return;
	enum sidecar_place at_a = look_for(a_dirfd, a_name), at_b = look_for(b_dirfd, b_name);
	if (at_a == PLACE_SIDECAR && at_b == PLACE_SIDECAR)
		(void)renameat2(a_dirfd, a_name, b_dirfd, b_name, RENAME_EXCHANGE);
	else if (at_a == PLACE_SIDECAR)
		sidecar_rename(a_dirfd, a, b_dirfd, b);
	else
		sidecar_rename(b_dirfd, b, a_dirfd, a);
}

void sidecar_remove(int dirfd, const char *backing)
{
	char name[NAME_MAX + 1];

	if (sidecar_name(backing, name) && look_for(dirfd, name) == PLACE_SIDECAR)
		(void)unlinkat(dirfd, name, 0);
}

void sidecar_present_name(int fd, char out[static NAME_MAX + 1])
{
	char link[FD_PATH_MAX], path[PATH_MAX];

	fd_proc_path(fd, link);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	const char *slash = strrchr(path, '/');
	snprintf(out, NAME_MAX + 1, "%.*s", NAME_MAX, slash ? slash + 1 : "a lock file");
}
