/* Files of the command line, by their content. */
#ifndef OPEN_H
#define OPEN_H

#include "frame/frame.h"

/*
 * A contiguous frame, a directory that is a sparse one (*frame is set), or something else, perhaps
 * a chunk that stands alone (*frame is NULL and *io set, the caller's). -EISDIR: a directory that
 * is none.
 */
NODISCARD int tool_open(const char *file, struct frame **frame, struct io **io);

/* True: a directory that is a sparse frame. */
bool tool_is_sparse(const char *directory);

#endif
