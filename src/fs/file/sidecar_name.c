#include "fs/file/sidecar.h"

#include "frame/names.h"

#include <dirent.h>
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

/* False: what has its name is no regular file, and thus not hidden, but somebody's own. */
static bool may_be_sidecar(int dirfd, const char *backing, char out[static NAME_MAX + 1])
{
	struct stat st;

	return sidecar_name(backing, out) &&
	       (fstatat(dirfd, out, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISREG(st.st_mode));
}

void sidecar_rename(int dirfd, const char *from, int to_dirfd, const char *to)
{
	char name[NAME_MAX + 1], to_name[NAME_MAX + 1];

	if (may_be_sidecar(dirfd, from, name) && may_be_sidecar(to_dirfd, to, to_name))
		(void)renameat(dirfd, name, to_dirfd, to_name);
}

void sidecar_remove(int dirfd, const char *backing)
{
	char name[NAME_MAX + 1];

	if (may_be_sidecar(dirfd, backing, name))
		(void)unlinkat(dirfd, name, 0);
}

static bool is_hidden(const struct dirent *d)
{
	size_t stem;

	return d->d_type == DT_REG &&
	       (suffix_of(d->d_name, &stem) == SUFFIX_LOCK || names_is_draft(d->d_name));
}

int sidecar_remove_only(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dp = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	bool only_hidden = true;

	if (!dp) {
		if (fd >= 0)
			close(fd);
		return -ENOTEMPTY;
	}
	while ((d = readdir(dp)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			only_hidden &= is_hidden(d);
	rewinddir(dp);
	while (only_hidden && (d = readdir(dp)))
		if (is_hidden(d)) /* another program may have put a file there meanwhile */
			(void)unlinkat(fd, d->d_name, 0);
	closedir(dp);
	return only_hidden ? 0 : -ENOTEMPTY;
}
