/*
 * Opening and closing: the file of an inode is there while it has users.
 *
 * Opening asks the disk, and for locks of other programs; closing commits what is left. Neither is
 * to be called with a lock held.
 */
#ifndef FS_FILE_OPEN_H
#define FS_FILE_OPEN_H

#include "fs/file/file.h"

/*
 * The file of an inode, opened if it is not yet; to be returned by file_put. `writable`: if it was
 * open for reading only, it is made writable. -EROFS for what cannot be written: arrays, sparse
 * frames, frames with chunks of different sizes.
 */
NODISCARD int file_get(struct fs *fs, struct inode *n, bool writable, struct file **f);

/* A file just made that nobody else knows of: what opening it would find is known already. */
struct newborn {
	int fd;              /* owned; -1: none yet      */
	struct frame *frame; /* owned; it borrows fd     */
	struct wish wish;    /* what the file asks for   */
	struct stat st;      /* as it is under its name  */
};

/*
 * Writes an empty frame to the empty file b->fd, which has no name yet. `mode`: to be set again
 * afterwards, since writing may have removed set-id bits; 0: leave it.
 */
NODISCARD int newborn_init_frame(struct newborn *b, const struct settings *s, mode_t mode);
void newborn_drop(struct newborn *b);

/* As file_get for writing, for a frame just made. Takes what *b owns in every case. */
NODISCARD int file_create_take(struct fs *fs, struct inode *n, struct newborn *b, struct file **f);

/* Ends a use. The last one commits what is left and closes the file. */
void file_put(struct fs *fs, struct inode *n);

/* Frees what open.c has made of a file that has no users. Under n->lock. */
void file_close(struct file *f);

#endif
