/*
 * The frame of an open file: loaded when the file is opened, and again when the backing file turns
 * out to have been replaced or changed. Everything else about opening is in open.c.
 */
#ifndef FS_FILE_LOAD_H
#define FS_FILE_LOAD_H

#include "fs/file/open.h"

/* How a file is opened. */
struct opening {
	bool writable;
	bool as_is;               /* file_get_as_is                                   */
	bool unlocked;            /* another program has held the lock for too long   */
	struct sidecar_busy busy; /* with `unlocked`, if the file was not open: how long */
	struct newborn *born;     /* a file that was just created, of this inode; or NULL */
};

/*
 * Gives a new file its descriptor and its frame. -EAGAIN: another program has the lock, and the
 * caller should wait for it. After a failure the file can only be closed. Under n->lock.
 */
NODISCARD int file_load(struct file *f, const struct opening *o);

/*
 * Loads the frame again through the same descriptor, since the content of the backing file has
 * changed. After a failure the old frame stays. Leaves DIRTY chunks alone, and what the kernel has
 * cached. The lock is held for writing.
 */
NODISCARD int file_load_again(struct file *f);

/*
 * Makes a file that is open for reading writable, while readers use it; after a failure it is as
 * before. Under n->lock.
 */
NODISCARD int file_make_writable(struct file *f);

#endif
