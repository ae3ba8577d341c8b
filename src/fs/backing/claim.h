/*
 * Which daemon uses a directory. Either one daemon may write to it and everything below it, or
 * several may read: two writers would not know of each other's bytes. So each daemon locks its
 * directory, and leaves marks (record locks) there and on every directory above. If two
 * directories, one above the other, are used by different users, that is allowed where the upper
 * one is only read, or where only its owner can write to the lower one.
 *
 * A directory that is above or below only through a bind mount is not recognised as such. Other
 * machines see a lock on the directory itself (machines.h).
 */
#ifndef FS_BACKING_CLAIM_H
#define FS_BACKING_CLAIM_H

#include "fs/backing/backing.h"

#include <limits.h>

#define HOLDER_PROCESS_MAX 32

/* The daemon that is in the way. */
struct holder {
	bool elsewhere;    /* on another machine                 */
	char at[PATH_MAX]; /* where its mount is, or its machine; "": not known */
	char process[HOLDER_PROCESS_MAX]; /* " (process 123)"; "": not known    */
	const char *has;   /* for the message: "it", or the other directory that is in use */
};

/*
 * Claims the directory; `shared`: to read only. backing_close gives it up. -EBUSY: another daemon
 * uses it. That is reported at once if the other's mount is there, and names the directory (if not,
 * or if it is on another machine, in 5 seconds); one that was just unmounted, or asked to end, may
 * still be writing, and is given up to half a minute. -EINTR: meanwhile `stop` has returned true.
 */
NODISCARD int claim_take(struct backing *b, bool shared, bool (*stop)(void), struct holder *h);

/* Tells other daemons, in the marks, that own_dev is known and the mount answers. */
void claim_tell_mount(const struct backing *b);

/* Tells them that this daemon will unmount soon. */
void claim_tell_ending(const struct backing *b);

/* True: a mount with that device number shows this directory, and its daemon is ending. */
bool claim_is_ending(const char *path, dev_t mount);

/* True: a daemon shows this directory as the file system with that device number. */
bool claim_is_shown(const char *path, dev_t mount);

/* Tells them that the mount is gone, and its device number may be reused. */
void claim_tell_unmounted(const struct backing *b);

#endif
