/*
 * The frame of an open file: found on the disk when the file is opened, and read anew when it turns
 * out to be another one. What else opening takes is in open.c.
 */
#ifndef FS_FILE_LOAD_H
#define FS_FILE_LOAD_H

#include "fs/file/open.h"

/* How a file is opened. */
struct opening {
	bool writable;
	bool unlocked;            /* another program has the lock for too long        */
	struct sidecar_busy busy; /* with `unlocked`, if the file was closed: how long */
	struct newborn *born;     /* of a file just made, and the inode's; or NULL     */
};

/*
 * Gives a new file its descriptor and its frame. -EAGAIN: another program has the lock, which is
 * waited for by the caller. After a failure the file is only to be closed. Under n->lock.
 */
NODISCARD int file_load(struct file *f, const struct opening *o);

/*
 * Reads the frame anew, since the backing file has other content now. The descriptor stays; after a
 * failure the old frame stays, too. The lock is held for writing.
 */
NODISCARD int file_reopen(struct file *f);

/* From reading to reading and writing, under the feet of the readers. Under n->lock. */
NODISCARD int file_make_writable(struct file *f);

#endif
