/* Opens files of the command line by their content. */
#ifndef OPEN_H
#define OPEN_H

#include "frame/frame.h"

/*
 * If `file` is a contiguous frame or the directory of a sparse one, sets *frame. If it is any other
 * file, perhaps a chunk that stands alone, sets *io, and *frame to NULL. What was set is the
 * caller's. -EISDIR: a directory that is not a sparse frame.
 */
NODISCARD int tool_open(const char *file, struct frame **frame, struct io **io);

/* True: the directory is a sparse frame. */
bool tool_is_sparse(const char *directory);

#endif
