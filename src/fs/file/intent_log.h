/* fsync of a file by the intent log (intent.h), where that costs less than a commit. */
#ifndef FS_FILE_INTENT_LOG_H
#define FS_FILE_INTENT_LOG_H

#include "fs/file/file.h"

/*
 * True: everything written so far is durable, by the log or already before. False: the file has to
 * be committed, since the log is off, would cost as much, or has failed.
 */
NODISCARD bool file_sync_by_log(struct file *f);

/* True: the log has bytes of the file that are not durable in the frame yet. */
bool file_in_log(struct file *f);

/*
 * Call when the frame was committed with COMMIT_SYNC, which has also cleared `touched`, under the
 * file's lock.
 */
void file_log_committed(struct file *f);

/*
 * Call before the last user closes a file that is committed, but perhaps not durably. The log drops
 * the records of a file without a name: after a crash nobody could find it.
 */
NODISCARD int file_log_close(struct file *f);

#endif
