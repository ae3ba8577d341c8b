/* Files that other programs write meanwhile, which may look broken at any moment. */
#ifndef STEADY_H
#define STEADY_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Looks at a file until it is well, or nobody wrote to it while it was looked at: then what was
 * found is right. A directory counts as the sparse frame that it is. False: neither came about in a
 * few tries.
 */
bool look_until_steady(const char *path, bool (*is_well)(void *arg), void *arg);

/*
 * True: nobody has written to an open regular file since it had those attributes. It may have lost
 * its name to another.
 */
bool is_untouched(int fd, const struct stat *since);

/* True: a file is, and is as it was, by two looks at its attributes. */
bool stat_is_same(const struct stat *a, const struct stat *b);

#endif
