/*
 * File capabilities, which any write to the backing file takes away there: ours too, though the
 * application's writes were all before they were set, or came by a mapping, which takes nothing
 * away.
 *
 * They are noted right before our own first write of a commit, put back after its last one, and
 * forgotten; meanwhile the note is what counts. Without our own writes the backing file alone has
 * them, so that what other programs do to them there counts too. One case is never noted: those
 * that somebody else set there after the kernel was told that there are none. It takes none away
 * then, so our writes have to.
 *
 * What another program that does not take part in locking does while there is a note can't be told
 * from our own writes, unless the root is another one then.
 */
#ifndef FS_CAPS_H
#define FS_CAPS_H

#include "fs/inode.h"

#define CAPS_XATTR "security.capability"

/* Before anything is written to the backing file at `fd`; what is noted already stays. */
void caps_hold(struct inode *n, int fd);

/* True: there are some that our own writes may have taken away. */
bool caps_noted(struct inode *n);

/* After a commit. 1: they were gone, and are there again. */
NODISCARD int caps_put_back(struct inode *n, int fd);

/* All our writes are done, or what is there now is another program's. */
void caps_forget(struct inode *n);

/*
 * The calls of the application; `fd` may be of any kind. caps_get returns the length, or a failure;
 * that there are none is good for `keep_ns`.
 */
NODISCARD int caps_set(struct inode *n, int fd, struct view value, int flags);
NODISCARD int caps_remove(struct inode *n, int fd);
NODISCARD ssize_t caps_get(struct inode *n, int fd, struct span dst, uint64_t keep_ns);

/* Nobody need look for them. */
bool caps_known_none(const struct inode *n);

#endif
