/* Files that other programs may be writing, and that can look broken at any moment. */
#ifndef STEADY_H
#define STEADY_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Looks at a file, by its path below the directory `dir` or AT_FDCWD, until `is_well` holds, or
 * until nobody wrote to it during a look: then the result is right either way. A directory is
 * looked at as a sparse frame. False: neither happened in a few tries.
 */
bool look_until_steady(int dir, const char *path, bool (*is_well)(void *arg), void *arg);

/*
 * True: nobody has written to an open regular file since it had these attributes, though another
 * file may have taken its name.
 */
bool is_untouched(int fd, const struct stat *since);

/* True: two looks at the attributes of a file show that it has not changed. */
bool stat_is_same(const struct stat *a, const struct stat *b);

#endif
