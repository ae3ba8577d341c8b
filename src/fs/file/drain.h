/*
 * Storing all that waits in memory, before a commit: in batches (dirty/flush.h), between which
 * partial commits free what the chunks so far have replaced. On a full disk, as much of it as fits.
 */
#ifndef FS_FILE_DRAIN_H
#define FS_FILE_DRAIN_H

#include "fs/file/file.h"

/*
 * Stores everything DIRTY in the frame. Returns the error of the last batch tried, or of a commit
 * before it; what was not stored is DIRTY then, except what is lost (loss.h). The gate is held for
 * writing.
 */
NODISCARD int file_drain(struct file *f);

#endif
