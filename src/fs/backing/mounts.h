/* The mounts that this process sees: /proc/self/mountinfo, a line for each. */
#ifndef FS_BACKING_MOUNTS_H
#define FS_BACKING_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct mounts {
	FILE *in;
	char *line; /* the present one */
	size_t room;
};

struct mount_line {
	uint64_t id, parent; /* of the mount, and of the one that it lies in       */
	dev_t dev;           /* of its files                                       */
	bool is_fuse;

	/*
	 * Borrowed from *m until the next line: its mount point; and for FUSE its source as its
	 * daemon has named it, else "". Ours name the backing directory, unless -o fsname says
	 * otherwise.
	 */
	const char *at, *source;
};

/* False: the list cannot be read, and mounts_close must not be called. */
bool mounts_open(struct mounts *m);

/* False: there are no more. mounts_find_fuse: of FUSE file systems with that device number. */
bool mounts_next(struct mounts *m, struct mount_line *out);
bool mounts_find_fuse(struct mounts *m, dev_t dev, struct mount_line *out);

/* Starts again with the first mount, in the list as it is by then. */
void mounts_rewind(struct mounts *m);

void mounts_close(struct mounts *m);

#endif
