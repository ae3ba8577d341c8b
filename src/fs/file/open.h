/*
 * Opening and closing: the file of an inode exists while it has users.
 *
 * Opening reads the disk, and waits for locks of other programs; closing commits what is left. Call
 * either without any lock held.
 */
#ifndef FS_FILE_OPEN_H
#define FS_FILE_OPEN_H

#include "fs/file/file.h"

#include <fcntl.h>

/*
 * Gets the file of an inode, and opens it if it is not open yet; file_put drops it. `flags`:
 * O_RDONLY; or O_RDWR, which makes it writable if it was open for reading only. -EROFS for what
 * cannot be written: arrays, sparse frames, frames with chunks of different sizes. -EACCES also if
 * the lock file of other programs may only be read (sidecar.h). -ESTALE: the kernel's size of the
 * file is wrong.
 */
NODISCARD int file_get(struct fs *fs, struct inode *n, int flags, struct file **f);

/* The same for O_RDONLY, even if the kernel's size is wrong. */
NODISCARD int file_get_as_is(struct fs *fs, struct inode *n, struct file **f);

/*
 * A file that was just created and that nobody else knows, so that opening it need not read
 * anything.
 */
struct newborn {
	int fd;              /* owned; -1: none yet      */
	struct frame *frame; /* owned; it borrows fd     */
	struct wish wish;    /* what the file asks for   */
	struct stat st;      /* as it is under its name  */
};

/*
 * Writes an empty frame to the empty file b->fd, which has no name yet. `mode`: set again
 * afterwards, since writing may clear set-id bits; 0: leave it.
 */
NODISCARD int newborn_init_frame(struct newborn *b, const struct settings *s, mode_t mode);
void newborn_drop(struct newborn *b);

/*
 * As file_get for writing, for a frame that was just created. Takes what *b owns, even if it fails.
 */
NODISCARD int file_create_take(struct fs *fs, struct inode *n, struct newborn *b, struct file **f);

/* Drops one use of the file. The last one commits what is left and closes it. */
void file_put(struct fs *fs, struct inode *n);

/* Frees what open.c has set up, for a file without users. Under n->lock. */
void file_close(struct file *f);

#endif
