/* Names in the backing directory <-> names in the mount, by the rules of frame/names.h. */
#ifndef FS_BACKING_NAMES_H
#define FS_BACKING_NAMES_H

#include "fs/backing/probe.h"

struct inodes;

#include <limits.h>

#define NAMES_MAX (NAME_MAX - 8) /* what is left of 255 for the user; statfs says so */

/* An entry of a directory. */
struct entry {
	char shown[NAME_MAX + 1];   /* its name in the mount             */
	char backing[NAME_MAX + 1]; /* its name in the backing directory */
	int fd;                     /* O_PATH or `readable`, owned; -1: none */
	bool readable;              /* it was opened to be read          */
	struct stat st;             /* of the backing entry ...          */
	uint64_t birth;             /* ... and backing_look's            */
	struct probed probed;
	bool made;                  /* by us, a moment ago               */
};

/* What finding names takes; borrowed. */
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
 * Finds how an entry with a backing name is shown; else as names_find. -ENOENT: it is hidden. After
 * other errors e->shown alone is valid: the name that it would have if it could be read.
 */
NODISCARD int names_show(const struct names *n, int dirfd, const char *backing, struct entry *e);

/*
 * The backing name for an entry of a kind that shall be shown as `shown`. `suffix`:
 * the one it has now, or NAMES_NEW_SUFFIX. -ENAMETOOLONG; -EXDEV when such an entry
 * cannot be shown so (an array without .npy, a plain file called like a frame).
 */
NODISCARD int names_for(enum node_kind kind, bool is_regular, const char *suffix, const char *shown,
			char backing[static NAME_MAX + 1]);

/* ".b2f" of "x.b2f"; "" where there is none. */
const char *names_suffix(const char *backing);

#endif
