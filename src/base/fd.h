/* Reading and writing all bytes at a place in a file, in as many calls as that takes; its path. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/bytes.h"
#include "base/err.h"

/* Both return 0 or a failure. -EBADMSG: the file ends before dst is full. */
NODISCARD int fd_pread(int fd, uint64_t at, struct span dst);
NODISCARD int fd_pwrite(int fd, uint64_t at, struct view src);

/*
 * To be called after a system call has failed, with errno still set. 0: it was interrupted by a
 * signal, and the caller tries again; *interrupted counts these. Otherwise the failure.
 */
NODISCARD int fd_judge(unsigned *interrupted);

/* "/proc/self/fd/N", for calls that know only paths. */
#define FD_PATH_MAX 32
void fd_proc_path(int fd, char out[static FD_PATH_MAX]);

#endif
