/* What a directory contains, and what a mount would show of it. */
#ifndef LISTING_H
#define LISTING_H

#include "base/buf.h"
#include "frame/names.h"

#include <limits.h>
#include <sys/stat.h>

#define LISTING_DEEPEST 2000 /* nested directories, so that the recursion fits on the stack */

/* An entry of a directory. */
struct entry {
	char *name;
	struct stat st;
	enum node_kind kind; /* set by listing_show, for a directory of frames */
	int rc;      /* < 0: the error if `st` or `kind` is not known */
	bool looked; /* listing_stat or listing_show has set these */
};

/* Sets *path to that of an entry of a directory, with a NUL. */
NODISCARD int path_join(struct buf *path, const char *directory, const char *name);

/* The kind of file that the last name in a path suggests. */
enum suffix path_suffix(const char *path);

/* True: path_suffix is that of a contiguous frame. */
bool path_is_named_as_frame(const char *path);

/* The entries of a directory, sorted by name. */
struct listing {
	int fd; /* borrowed */
	struct entry *entry;
	size_t n;
};

NODISCARD int listing_read(struct listing *l, int fd);
void listing_free(struct listing *l);

/* The entry of that name, or NULL. */
struct entry *listing_find(struct listing *l, const char *name);

/* Sets e->st, or e->rc. */
void listing_stat(struct listing *l, struct entry *e);

/*
 * The listing of the directory in which an entry was looked up last. Many entries of one directory
 * may be looked up in a row, and reading a large directory for each would take minutes.
 */
struct last_listing {
	struct listing l;
	struct stat of; /* the directory */
};

/*
 * Sets *e to the entry with that name in the directory; _shown: or, if there is none, to the one
 * that a mount shows by that name. -ENOENT: there is no such entry. Borrows `fd`, until the next
 * call. Release with listing_free(&t->l).
 */
NODISCARD int last_listing_find(struct last_listing *t, int fd, const char *name,
				struct entry **e);
NODISCARD int last_listing_find_shown(struct last_listing *t, int fd, const char *name,
				      struct entry **e);

/*
 * Finds out what an entry is, and its name in a mount. False: it is hidden. If another entry has
 * the name that it claims, it is NODE_PLAIN, under its own name. A name that is too long is
 * truncated, and e->rc is -ENAMETOOLONG.
 */
bool listing_show(struct listing *l, struct entry *e, char shown[static NAME_MAX + 1]);

/* The same, but with the name that it claims even if another entry has it. */
bool listing_show_claim(struct listing *l, struct entry *e, char shown[static NAME_MAX + 1]);

/* The size of a file in a mount, and its stored size, in bytes. Its `kind` has been set. */
NODISCARD int listing_size(struct listing *l, const struct entry *e, uint64_t *size,
			   uint64_t *stored);

#endif
