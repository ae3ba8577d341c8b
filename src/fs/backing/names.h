/* Names in the backing directory <-> names in the mount, by the rules of frame/names.h. */
#ifndef FS_BACKING_NAMES_H
#define FS_BACKING_NAMES_H

#include "fs/backing/probe.h"

#include <limits.h>

struct inodes;

#define NAMES_MAX (NAME_MAX - 8) /* what the suffix leaves of 255; statfs reports it */

/* An entry of a directory. */
struct entry {
	char shown[NAME_MAX + 1];   /* its name in the mount             */
	char backing[NAME_MAX + 1]; /* its name in the backing directory */
	int fd;                     /* owned; O_PATH unless `readable`; -1: none */
	bool readable;              /* fd was opened for reading         */
	struct stat st;             /* of the backing entry ...          */
	uint64_t birth;             /* ... and backing_look's            */
	struct probed probed;
	bool made;                  /* we have just created it           */
};

/* What is needed to find names; borrowed. */
struct names {
	const struct backing *backing;
	struct probes *probes;
	struct inodes *inodes;
};

/*
 * Finds the entry that has the name `shown` in the mount. -ENOENT, -ENAMETOOLONG, ... On success
 * the caller closes e->fd.
 */
NODISCARD int names_find(const struct names *n, int dirfd, const char *shown, struct entry *e);

/*
 * Finds how the entry with this backing name is shown; otherwise as names_find. -ENOENT: it is
 * hidden. After other errors only e->shown is valid: the name that it would have if it could be
 * read.
 */
NODISCARD int names_show(const struct names *n, int dirfd, const char *backing, struct entry *e);

/*
 * The backing name for an entry of this kind that is to be shown as `shown`. `suffix`: the one it
 * has now, or NAMES_NEW_SUFFIX. -ENAMETOOLONG. -EXDEV: such an entry cannot have that name (an
 * array without .npy, a plain file named like a frame).
 */
NODISCARD int names_for(enum node_kind kind, bool is_regular, const char *suffix, const char *shown,
			char backing[static NAME_MAX + 1]);

/* ".b2f" of "x.b2f"; "" where there is none. */
const char *names_suffix(const char *backing);

#endif
