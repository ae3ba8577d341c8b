#include "fs/backing/hidden.h"

#include "base/fd.h"
#include "frame/names.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not every file system has the type of a file in the directory entry. */
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

int hidden_clear(int parent, const char *name)
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
