/*
 * Files with several names (hard links): where, below the target, the first name of each was
 * created. If a file is shown in two ways (as a frame by one name, as plain bytes by another),
 * these count as two files.
 */
#ifndef LINKS_H
#define LINKS_H

#include "frame/names.h"

#include <stdbool.h>
#include <sys/stat.h>

struct links {
	struct link *by_file, *by_path; /* hash tables of the same entries */
};

/* The first name of a file in the target. */
struct first_name {
	const char *path;
	dev_t dev; /* what has that name */
	ino_t ino;
	bool is_new; /* it was not there before */
};

/* NULL: none has been noted. */
const struct first_name *links_find(const struct links *t, const struct stat *st,
				    enum node_kind kind);

/* Notes a name, if it is the first. Without memory, the next one becomes a separate file. */
void links_add(struct links *t, const struct stat *st, enum node_kind kind,
	       const struct first_name *name);

/* Another file has replaced the one with that path. */
void links_forget(struct links *t, const char *path);
void links_deinit(struct links *t);

#endif
