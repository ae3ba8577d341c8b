/*
 * The fsync of a file by way of the intent log (intent.h), where that costs less than a commit.
 */
#ifndef FS_FILE_LOG_H
#define FS_FILE_LOG_H

#include "fs/file/file.h"

/*
 * True: everything written so far is durable, in the log or before. Else it has to be committed:
 * the log is off, does not pay, or failed.
 */
NODISCARD bool file_sync_by_log(struct file *f);

/* The frame was committed with COMMIT_SYNC: `touched` is cleared under the file's lock, with it. */
void file_log_committed(struct file *f);

/* Before the last user closes a file that is committed, but perhaps not durably. */
NODISCARD int file_log_close(struct file *f);

#endif
