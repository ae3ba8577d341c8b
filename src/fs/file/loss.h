/*
 * Bytes that will not get into the file, and who is told: those whose write was refused
 * (dirty/arrivals.h), which may be written again, and those that were accepted and lost.
 */
#ifndef FS_FILE_LOSS_H
#define FS_FILE_LOSS_H

#include "fs/file/file.h"

/* The error of the last refused write, as long as its bytes are missing; else 0. */
NODISCARD int file_refused(struct file *f);

/* True: bytes are missing whose write was refused. */
bool file_lacks_refused(struct file *f);

/*
 * To be called before an fsync. While bytes are missing whose write was refused, fsync and close
 * fail, and no commit shows anything behind them. A program that was told so through this handle,
 * and asks again, continues without them: they become holes. *told belongs to the handle and starts
 * as 0.
 */
void file_accept_refused(struct file *f, _Atomic uint32_t *told);

/*
 * The same for a writer that never asks but has continued behind them for a while: what came since
 * is not to be cut off. False: nobody has, or it could not be done. Gate and lock are held.
 */
bool file_accept_long_refused(struct file *f);

/*
 * file_lose records that data was lost which no later flush can store. Every open handle is told
 * the error once, by file_take_loss. *seen belongs to the handle and starts as file_losses.
 */
void file_lose(struct file *f, int rc);
NODISCARD int file_take_loss(struct file *f, _Atomic uint32_t *seen);
uint32_t file_losses(struct file *f);

#endif
