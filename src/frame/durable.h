/*
 * Checkpoints (era.h), remembered from one process to the next: an extended attribute of the
 * directory below which files were written. Its value, as little-endian u64: the directory's inode
 * number and creation time in ns since 1970, which expose a copy of the attribute on another
 * directory; then, for each range of words, its first one and the one after its last.
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
 * False: nothing can be kept there, since mounts have no numbers or its creation time is unknown.
 */
bool durable_init(struct durable *d, int fd);

/* Adds the ranges in the attribute to those that this process knows (era_load). */
void durable_load(const struct durable *d);

/*
 * Stores the ranges that this process knows, as many as there is room for. Failures are only logged
 * as debug messages: the next process knows less.
 */
void durable_store(const struct durable *d);

/*
 * Loads the attributes of the directories above this one that belong to its owner or to root: one
 * of them may have been mounted before. `fd` is borrowed.
 */
void durable_load_above(int fd);

/*
 * For programs without a mount. durable_load_for loads those attributes and that of the directory
 * of `path` itself; the path may be a symlink, or a name that only a mount would show.
 * durable_load_below loads that of a directory found further down, if it belongs to us or to root.
 */
void durable_load_for(const char *path);
void durable_load_below(int fd);

#endif
