/*
 * The ends, other than the disk, of what waits in memory. Each takes the locks of the file itself,
 * and n->lock, so that nobody opens the file in the middle.
 */
#ifndef FS_FILE_DISCARD_H
#define FS_FILE_DISCARD_H

#include "fs/file/file.h"

/* Drops what was written since the last commit, and reads the frame anew. */
void file_discard(struct file *f);

/*
 * Drops chunks that were recompressed and could not be committed, unless an application has changes
 * in the file, too. `theirs`: another program wrote to it meanwhile, and its mtime stays.
 */
void file_take_back(struct file *f, bool theirs);

/* Also of one that was never looked up. */
bool file_has_a_name(const struct file *f);

/*
 * What a failing disk left in memory is given up, loudly if the file has a name: it is what its
 * last commit says. For the last user of a file, who is about to close it. Does nothing if it has
 * been opened again meanwhile: then it is the other's to end, and what that one has written, or was
 * told is there, is among what waits.
 */
void file_give_up_changes(struct file *f);

/*
 * At the last close: bytes whose write was refused will not come any more. The file ends before
 * them, and is committed by the caller, who calls file_tell_cut afterwards: for the log, and since
 * the kernel would go on with the size that it knows. Both do nothing if the file has been opened
 * again meanwhile.
 */
void file_cut_refused(struct file *f);
void file_tell_cut(struct file *f);

#endif
