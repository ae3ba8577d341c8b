/*
 * Files with several names (hard links) that are made: where the first name of each went, below the
 * target. Two kinds of one file (a frame by one name, plain bytes by another) are two files.
 */
#ifndef LINKS_H
#define LINKS_H

#include "frame/names.h"

#include <sys/stat.h>

struct links {
	struct link *by_file, *by_path; /* hash tables of the same entries */
};

/* Where a name of that file was made; NULL: nowhere yet. */
const char *links_find(const struct links *t, const struct stat *st, enum node_kind kind);

/* Without memory for it, the next name becomes a file of its own. */
void links_add(struct links *t, const struct stat *st, enum node_kind kind, const char *path);

/* Another file has taken that path. */
void links_forget(struct links *t, const char *path);
void links_deinit(struct links *t);

#endif
