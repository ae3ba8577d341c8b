/*
 * Bytes that will not get into the file, and who is told: those whose write was refused
 * (dirty/arrivals.h), which may be written again, and those that were accepted and lost.
 */
#ifndef FS_FILE_LOSS_H
#define FS_FILE_LOSS_H

#include "fs/file/file.h"

/*
 * file_has_refused: bytes are missing whose write was refused. file_refused: the error of the last
 * such write; 0 if no bytes are missing. Both take the lock.
 */
NODISCARD int file_refused(struct file *f);
bool file_has_refused(struct file *f);

/*
 * While bytes are missing whose write was refused, fsync and close fail, and no commit shows
 * anything beyond them. A program whose fsync has failed for that reason, and which calls fsync
 * again on the same handle, goes on without these bytes: they become holes. Call this before each
 * fsync. *told belongs to the handle, starts as 0, and is the number of refused writes
 * (arrivals.refusals) that the handle knows of. Takes gate and lock.
 */
void file_accept_refused(struct file *f, _Atomic uint32_t *told);

/*
 * The same for a writer that never calls fsync, but has written more bytes beyond the missing ones
 * a while later: the last close must not cut those off. False: there is no such writer, or it
 * failed. Gate and lock are held.
 */
bool file_accept_long_refused(struct file *f);

/*
 * file_lose records that data was lost which no later flush can store. file_take_loss returns the
 * error of the last loss, once to each handle that was open then; else 0. *seen belongs to the
 * handle and starts as file_losses, the number of losses so far.
 */
void file_lose(struct file *f, int rc);
NODISCARD int file_take_loss(struct file *f, _Atomic uint32_t *seen);
uint32_t file_losses(struct file *f);

#endif
