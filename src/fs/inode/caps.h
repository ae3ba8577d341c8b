/*
 * File capabilities, and set-id bits. Any write to the backing file removes them there; set-id bits
 * only if we are not root. Our own writes must not have that effect: the application's writes were
 * all made before they were set, or through a mapping, which removes nothing.
 *
 * So they are noted right before the first write of a commit, and restored after the last one. In
 * between, the note is what counts; at other times the backing file has them, and other programs
 * may change them there. One case is never noted: capabilities that another program has set after
 * we told the kernel that there are none. Then the kernel does not remove them when the application
 * writes, so our own writes have to.
 *
 * Changes made while there is a note, by a program that does not take part in locking, cannot be
 * told from the effect of our own writes, unless that program has also written a new root.
 *
 * `fd` is a descriptor of the backing file, of any kind.
 */
#ifndef FS_INODE_CAPS_H
#define FS_INODE_CAPS_H

#include "base/bytes.h"
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct inode;

#define CAPS_XATTR "security.capability"

/* File capabilities and set-id bits as they were before our own writes. */
struct caps {
	pthread_mutex_t lock; /* innermost */
	bool told_none;       /* the kernel was told that there are none, and none were set since */
	bool writing;         /* our writes have begun, and the fields below are the note */
	size_t n;             /* bytes of value; 0: the file had none */
	uint8_t value[24];
	mode_t mode;          /* permissions; 0: the file had no set-id bits */
	uid_t uid;            /* the file's owner, if it had such bits */
	gid_t gid;
	/* Until when (CLOCK_MONOTONIC_COARSE) caps_known_none is true. */
	_Atomic uint64_t none_until;
};

/* Call before we write to the backing file. Notes the capabilities, unless there is a note. */
void caps_note(struct inode *n, int fd);

/* True: there is a note of capabilities, which our writes may have removed. */
bool caps_noted(struct inode *n);

/*
 * Call after a commit, with an open descriptor. 1: they had been removed, and have been restored.
 */
NODISCARD int caps_put_back(struct inode *n, int fd);

/* Drops the note: our writes are done, or the file is now another program's. */
void caps_forget(struct inode *n);

/*
 * setxattr, removexattr and getxattr of the application. caps_get returns the length; that there
 * are none (-ENODATA) is remembered for keep_ns nanoseconds, which is how long the kernel remembers
 * it.
 */
NODISCARD int caps_set(struct inode *n, int fd, struct view value, int flags);
NODISCARD int caps_remove(struct inode *n, int fd);
NODISCARD ssize_t caps_get(struct inode *n, int fd, struct span dst, uint64_t keep_ns);

/* chmod and chown of the application; `mode`: permissions. A chown removes set-id bits for good. */
NODISCARD int caps_set_mode(struct inode *n, int fd, mode_t mode);
NODISCARD int caps_set_owner(struct inode *n, int fd, uid_t uid, gid_t gid);

/* Adds to st->st_mode the bits that the backing file has lost by our writes. */
void caps_show_mode(struct inode *n, struct stat *st);

/* True: the kernel was told a moment ago that there are none. */
bool caps_known_none(const struct inode *n);

#endif
