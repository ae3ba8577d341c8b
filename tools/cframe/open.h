/*
 * Opens files by their content. Their names are paths relative to the directory `dir`, or AT_FDCWD.
 */
#ifndef OPEN_H
#define OPEN_H

#include "frame/frame.h"

#include <sys/types.h>

/*
 * Returns a descriptor for reading a regular file or a directory, and sets *type to S_IFREG or
 * S_IFDIR. -ESPIPE: it is neither. Does not wait for FIFOs.
 */
NODISCARD int tool_open_fd(int dir, const char *file, mode_t *type);

/*
 * If `file` is a contiguous frame or the directory of a sparse one, sets *frame. If it is any other
 * file, perhaps a single chunk, sets *io, and *frame to NULL. What was set is the caller's.
 * -EISDIR: a directory that is not a sparse frame. -ESPIPE: as above.
 */
NODISCARD int tool_open(int dir, const char *file, struct frame **frame, struct io **io);

/* 1: the file begins as a contiguous frame does. 0: it does not. */
NODISCARD int tool_is_frame(struct io *io);

/* True: the directory is a sparse frame. */
bool tool_is_sparse(const char *directory);

#endif
