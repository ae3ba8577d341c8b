/* What write.c, alone.c and copy.c share. */
#ifndef FS_FILE_WRITE_IMPL_H
#define FS_FILE_WRITE_IMPL_H

#include "fs/file/write.h"

/*
 * budget_enter for a change to the file. If there is no memory because the disk is full, waits for
 * the space that a removed file may free when it is closed (room.h).
 */
NODISCARD int file_enter_budget(struct file *f, uint64_t most, size_t data);

/*
 * Writing a part of a chunk takes memory for the whole chunk, several times over. -E2BIG: that is
 * too much. What a crash left in the log was accepted before, so it always passes. The lock is
 * held.
 */
NODISCARD int file_check_memory(const struct file *f);

/*
 * Undoes a growth, back to `size`: what could not be written was not there before either. The lock
 * is held for writing.
 */
void file_shrink_back(struct file *f, uint64_t size);

/*
 * Puts the file on the list for the background commit, and sets its times to now, unless they will
 * come from the kernel. The gate is held.
 */
void file_note_change(struct file *f, enum file_source from);

/*
 * Commits, so that the space of replaced chunks becomes free. While another program has the lock,
 * the file grows instead: a write that is refused here would not be repeated.
 */
NODISCARD int file_commit_replaced(struct file *f);

#endif
