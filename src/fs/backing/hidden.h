/* What the backing directory has and the mount does not show: lock files, and drafts of cframe. */
#ifndef FS_BACKING_HIDDEN_H
#define FS_BACKING_HIDDEN_H

#include "base/err.h"

/*
 * A directory that holds nothing else is empty to its user, who wants to remove it. Empties the
 * directory `name` in `parent`. -ENOTEMPTY: it holds something else as well, or could not be read,
 * and nothing was removed.
 */
NODISCARD int hidden_clear(int parent, const char *name);

#endif
