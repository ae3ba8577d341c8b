/*
 * Names in the backing directory <-> names in the mount.
 *
 *   x.b2frame, x.b2f, x.b2   a frame              x
 *   x.b2nd                   an array             x.npy
 *   x.b2frame/               a sparse frame       x
 *   *.b2lock                 lock sidecars        hidden
 *   .cframefs-intent         the intent log       hidden
 *   anything else            itself               itself
 *
 * Several entries may claim one name. It goes to the first of: the entry that
 * is called just so, .b2frame, .b2f, .b2, .b2nd. Who loses is shown under its own
 * name, as plain bytes: nothing is ever hidden by another. An entry called
 * just so is one that is not itself shown as something else.
 */
#ifndef FS_NAMES_H
#define FS_NAMES_H

#include "fs/probe.h"

struct inodes;

#include <limits.h>

#define NAMES_NEW_SUFFIX ".b2frame"
#define NAMES_MAX (NAME_MAX - 8) /* what is left of 255 for the user; statfs says so */

/* One entry, seen from both sides. */
struct entry {
	char shown[NAME_MAX + 1];
	char backing[NAME_MAX + 1];
	int fd; /* O_PATH, owned; -1: none */
	struct stat st; /* of the backing entry */
	struct probed probed;
	bool made; /* by us, a moment ago */
};

struct names {
	const struct backing *backing;
	struct probes *probes;
	struct inodes *inodes;
};

/*
 * The entry that `shown` names in a directory. -ENOENT, -ENAMETOOLONG, ... On success close e->fd.
 */
NODISCARD int names_find(const struct names *n, int dirfd, const char *shown, struct entry *e);

/*
 * The entry behind a backing name, and how it is shown: as names_find. -ENOENT: hidden. With
 * another error only e->shown is filled.
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
