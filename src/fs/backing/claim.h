/*
 * Which daemon has a directory. One may write to it and to all below it, or several read: two that
 * write would not know of each other's bytes. So each has a lock on its directory, and leaves marks
 * (record locks) there and on every directory above. Of two directories, one above the other, that
 * different users have, both may be used where the upper one is only read, or the lower one is
 * writable for its owner alone.
 *
 * What only a bind mount leads to is not seen to be above or below.
 */
#ifndef FS_BACKING_CLAIM_H
#define FS_BACKING_CLAIM_H

#include "fs/backing/backing.h"

/* The one that is in the way. */
struct holder {
	char at[PATH_MAX]; /* where its mount is; "": not known */
	const char *has;   /* "it", or what else of ours it has  */
};

/*
 * -EBUSY: in use, at once if the other one's mount is there; one that was just unmounted, or asked
 * to end, may still be writing, and is waited for, up to half a minute. backing_close ends it.
 */
NODISCARD int claim_take(struct backing *b, bool shared, struct holder *h);

/* For those who want it: own_dev is known, and its mount answers. */
void claim_tell_mount(const struct backing *b);

/* It will be unmounted soon, by this daemon. */
void claim_tell_ending(const struct backing *b);

/* True: the mount of that device number is there, and its daemon, of this directory, ends. */
bool claim_is_ending(const char *path, dev_t mount);

/* True: a daemon shows this directory as the file system of that device number. */
bool claim_is_shown(const char *path, dev_t mount);

/* From here on its device number may be another mount's. */
void claim_tell_unmounted(const struct backing *b);

#endif
