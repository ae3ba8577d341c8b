/*
 * Chunks whose item size no longer suits the length of the file (frame/policy/policy.h): the
 * reference could not read them, or not all slices of the file.
 */
#ifndef FS_FILE_REFIT_H
#define FS_FILE_REFIT_H

#include "fs/file/file.h"

/*
 * Call before a commit, after file_drain: encodes and stores such chunks again, in files of up to
 * 16 MiB. After a failure the next commit goes on with the rest. The gate is held for writing.
 */
NODISCARD int file_refit(struct file *f);

#endif
