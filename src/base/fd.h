/* All of some bytes from or to a place in a file, whatever the system takes at a time. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/bytes.h"
#include "base/err.h"

/* -EBADMSG: the file ends before. */
NODISCARD int fd_pread(int fd, uint64_t at, struct span dst);
NODISCARD int fd_pwrite(int fd, uint64_t at, struct view src);

/* After a failed call: 0 when it was only interrupted, *interrupted times so far: make it again. */
NODISCARD int fd_judge(unsigned *interrupted);

#endif
