/*
 * Giving up data in memory that is not to be written to the disk, or cannot be. Each function takes
 * the locks of the file itself, and n->lock, so that the file is not opened meanwhile.
 */
#ifndef FS_FILE_DISCARD_H
#define FS_FILE_DISCARD_H

#include "fs/file/file.h"

/* Discards what was written since the last commit, and loads the frame again. */
void file_discard(struct file *f);

/*
 * Discards recompressed chunks that could not be committed, unless the file has changes of an
 * application as well. `theirs`: another program wrote to it meanwhile, and its mtime stays.
 */
void file_take_back(struct file *f, bool theirs);

/* The same for any chunks that we have moved or replaced by ourselves. The gate is held alone. */
void file_take_back_gated(struct file *f, bool theirs);

/*
 * Gives up what a failing disk has left in memory, so that the file is as of its last commit; logs
 * that if the file has a name. For the last user of a file, about to close it. False, with nothing
 * done: the file has another user by now, which becomes responsible for what waits, since some of
 * it may be its own.
 */
bool file_give_up_changes(struct file *f);

/*
 * At the last close, bytes whose write was refused will never arrive. file_cut_refused makes the
 * file end before them, unless there are none, or the file has been opened again meanwhile. True:
 * it did; the caller commits the file, and then calls file_tell_cut, which logs it and tells the
 * kernel the new size. Until the file is closed, opens of it wait (INODE_ENDING).
 */
bool file_cut_refused(struct file *f);
void file_tell_cut(struct file *f);

#endif
