#include "steady.h"

#include "base/clock.h"
#include "frame/names.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 4
#define PAUSE (CLOCK_SECOND / 20) /* longer than a step of file systems' clocks */

bool stat_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* For a sparse frame, looks at the index, which is written after everything else. */
static bool stat_content(int dir, const char *path, struct stat *st)
{
	int fd = openat(dir, path, O_PATH | O_CLOEXEC);
	bool known = fd >= 0 && fstat(fd, st) == 0;
	if (known && S_ISDIR(st->st_mode))
		known = fstatat(fd, NAMES_SPARSE_INDEX, st, 0) == 0;
	if (fd >= 0)
		close(fd);
	return known;
}

/* True: the stamp is old enough that any later write would have changed it. */
static bool is_settled(struct timespec stamp)
{
	uint64_t now = clock_read(CLOCK_REALTIME), then = clock_ns(stamp);
	return then > now || now - then > PAUSE;
}

bool is_untouched(int fd, const struct stat *since)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == since->st_size &&
	       clock_ns(st.st_mtim) == clock_ns(since->st_mtim) && is_settled(st.st_mtim);
}

bool look_until_steady(int dir, const char *path, bool (*is_well)(void *arg), void *arg)
{
	struct stat before, after;

	for (int i = 0; i < TRIES; i++) {
		bool known = stat_content(dir, path, &before);
		if (is_well(arg) || !known)
			return true;
		if (stat_content(dir, path, &after) && stat_is_same(&before, &after) &&
		    is_settled(after.st_ctim))
			return true;
		clock_sleep(PAUSE);
	}
	return false;
}
