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
 * For programs without a mount: load what a directory says; and what all above a path say, and it
 * itself if it is one. It may be a link, or a name that only a mount would show.
 */
void durable_load_of(int fd);
void durable_load_above(const char *path);

#endif
