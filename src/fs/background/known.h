/*
 * The files that recompression need not look at again, and that could not be marked as such
 * (recompress_file.h): by inode number and mtime. One thread.
 */
#ifndef FS_BACKGROUND_KNOWN_H
#define FS_BACKGROUND_KNOWN_H

#include "base/hash.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Starts zeroed. */
struct known {
	struct known_file *files;
};

/* Forgets all of them. */
void known_clear(struct known *k);

/* Notes a file as it is now. If there are too many, or no memory, some are forgotten. */
void known_note(struct known *k, const struct stat *st);

/* True: it was noted, and has not changed since. */
bool known_has(const struct known *k, const struct stat *st);

#endif
