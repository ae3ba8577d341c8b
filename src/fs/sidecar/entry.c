#include "fs/sidecar/entry.h"

#include "base/fd.h"
#include "frame/names.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool sidecar_name(const char *backing, char out[static NAME_MAX + 1])
{
	int n = snprintf(out, NAME_MAX + 1, "%s.b2lock", backing);
	return n > 0 && n <= NAME_MAX;
}

/* What has the name of a sidecar: one that is no regular file is not hidden, but somebody's own. */
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

/* Not every file system tells the sort of a file in the entry. */
static mode_t type_of(DIR *dp, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return (mode_t)DTTOIF(d->d_type); /* an int in glibc */
	return fstatat(dirfd(dp), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

static bool is_hidden(DIR *dp, const struct dirent *d)
{
	return strcmp(d->d_name, NAMES_INTENT) != 0 && names_hides(d->d_name, type_of(dp, d));
}

int sidecar_clear_dir(int parent, const char *name)
{
	DIR *dp = fd_opendir(parent, name);
	struct dirent *d;
	bool only_hidden = true;

	if (!dp)
		return -ENOTEMPTY;
	while (errno = 0, (d = readdir(dp)))
		if (!names_is_dots(d->d_name))
			only_hidden &= is_hidden(dp, d);
	only_hidden &= errno == 0; /* of readdir: there may be more */
	rewinddir(dp);
	while (only_hidden && (d = readdir(dp)))
		if (is_hidden(dp, d)) /* another program may have put a file there meanwhile */
			(void)unlinkat(dirfd(dp), d->d_name, 0);
	closedir(dp);
	return only_hidden ? 0 : -ENOTEMPTY;
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
