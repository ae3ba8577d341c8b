/*
 * An entry of a directory: found by its name in the mount, or by that in the backing directory.
 * frame/names.h has the rules.
 */
#ifndef FS_BACKING_ENTRY_H
#define FS_BACKING_ENTRY_H

#include "fs/backing/probe.h"

#include <limits.h>

struct inodes;

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

/* What is needed to find entries; borrowed. */
struct finder {
	const struct backing *backing;
	struct probes *probes;
	struct inodes *inodes;
	bool ahead; /* read-ahead (ahead.h): what cannot be read is not logged */
};

/*
 * Finds the entry that has the name `shown` in the mount. -ENOENT, -ENAMETOOLONG, ... On success
 * the caller closes e->fd.
 */
NODISCARD int entry_find(const struct finder *f, int dirfd, const char *shown, struct entry *e);

/*
 * Finds how the entry with this backing name is shown; otherwise as entry_find. -ENOENT: it is
 * hidden. After other errors only e->shown is valid: the name that it would have if it could be
 * read; "" if that is too long, after -ENAMETOOLONG.
 */
NODISCARD int entry_show(const struct finder *f, int dirfd, const char *backing, struct entry *e);

#endif
