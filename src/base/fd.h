/*
 * What descriptors need beside system calls: reads and writes at an offset of a file, in as many
 * calls as that takes; directories to be listed; extended attributes; a path; standard descriptors
 * that are closed.
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
 * To be called after a failed system call, with errno still set. Returns 0 if it was interrupted by
 * a signal and should be tried again, which *interrupted counts; otherwise the failure.
 */
NODISCARD int fd_judge(unsigned *interrupted);

/*
 * Opens the directory `name` below `at` to be listed, with a descriptor of its own; the caller
 * closes it (closedir). It may be no symlink. NULL: errno says why.
 */
DIR *fd_opendir(int at, const char *name);

/*
 * getxattr(2) by a descriptor of any kind, also O_PATH. Returns the length of the value, or a
 * negative errno.
 */
NODISCARD ssize_t fd_getxattr(int fd, const char *name, struct span value);

/* "/proc/self/fd/N", for calls that know only paths. */
#define FD_PATH_MAX 32
void fd_proc_path(int fd, char out[static FD_PATH_MAX]);

/*
 * To be called first of all: opens descriptors 0 to 2 where they are closed, so that no other file
 * gets one of these numbers, and what is printed. Reading gives nothing, and writing still fails.
 */
void fd_open_stdio(void);

#endif
