/*
 * What is known of checkpoints (era.h) beyond the end of a process: an attribute of the directory
 * below which files were written. Its value, little-endian u64: the inode number of the directory
 * and the time when it was created, in ns since 1970, by which a copy of it is told apart; and for
 * each range of words its first one and the one behind its last.
 */
#ifndef FRAME_DURABLE_H
#define FRAME_DURABLE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define DURABLE_ATTRIBUTE "user.cframefs.durable"
#define DURABLE_HEAD 16

/* A directory. */
struct durable {
	int fd; /* borrowed */
	uint64_t mount; /* io_mount of it */
	uint8_t head[DURABLE_HEAD];
};

/*
 * False: nothing can be kept there, since mounts have no numbers or nobody knows when it was
 * created.
 */
bool durable_init(struct durable *d, int fd);

/* Adds what the attribute says to what this process knows (era_load). */
void durable_load(const struct durable *d);

/*
 * Stores what this process knows, as much of it as there is room for. A failure is told by debug
 * messages only: the next process knows less.
 */
void durable_store(const struct durable *d);

/*
 * Loads what the directories above this one say that belong to its owner or to root: they may have
 * been mounted before. `fd` is borrowed.
 */
void durable_load_above(int fd);

/*
 * For programs without a mount. durable_load_for: that, and what the directory itself says, of this
 * path, which may be a link, or a name that only a mount would show. durable_load_below: what a
 * directory says that was found below it, if it belongs to us or to root.
 */
void durable_load_for(const char *path);
void durable_load_below(int fd);

#endif
