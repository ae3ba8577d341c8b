/*
 * Helpers for descriptors: complete reads and writes at an offset; directories for listing;
 * extended attributes; a path; standard descriptors that are closed.
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/bytes.h"
#include "base/err.h"

#include <dirent.h>
#include <sys/types.h>

/* Return 0 or a negative errno. -EBADMSG: the file ends before dst is full. */
NODISCARD int fd_pread(int fd, uint64_t at, struct span dst);
NODISCARD int fd_pwrite(int fd, uint64_t at, struct view src);

/*
 * Called after a failed system call, with errno still set. Returns 0 if a signal interrupted it and
 * it should be retried, counting retries in *interrupted; otherwise the negative errno, or -EIO for
 * -EBADMSG, which has a meaning here (err.h).
 */
NODISCARD int fd_judge(unsigned *interrupted);

/* The same for a read: -EIO also for -ENOTSUP and -E2BIG, which would be about what was read. */
NODISCARD int fd_judge_read(unsigned *interrupted);

/*
 * Opens the directory `name` below `at` for listing, with a descriptor of its own; the caller
 * closes it (closedir). Symlinks are not followed. NULL: errno says why.
 */
DIR *fd_opendir(int at, const char *name);

/*
 * getxattr(2) by any kind of descriptor, O_PATH included. Returns the length of the value, or a
 * negative errno.
 */
NODISCARD ssize_t fd_getxattr(int fd, const char *name, struct span value);

/* "/proc/self/fd/N", for calls that only take paths. */
#define FD_PATH_MAX 32
void fd_proc_path(int fd, char out[static FD_PATH_MAX]);

/*
 * Call this first in main: opens those of descriptors 0 to 2 that are closed, so that no other file
 * gets such a number, and with it whatever is printed. Reading them gives end of file, and writing
 * still fails.
 */
void fd_open_stdio(void);

#endif
