/* Files that other programs may be writing, and that can therefore look broken at any moment. */
#ifndef STEADY_H
#define STEADY_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Calls `is_well` on a file, by its path relative to the directory `dir` or AT_FDCWD, until it
 * returns true, or until the file was not written to during the call: then the result is right
 * either way. A directory is taken for a sparse frame. False: neither happened in a few tries.
 */
bool look_until_steady(int dir, const char *path, bool (*is_well)(void *arg), void *arg);

/*
 * True: an open regular file was not written to since it had these attributes, though another file
 * may have taken its name.
 */
bool is_untouched(int fd, const struct stat *since);

/* True: two looks at the attributes of a file show that it has not changed. */
bool stat_is_same(const struct stat *a, const struct stat *b);

#endif
