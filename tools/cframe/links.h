/*
 * Files with several names (hard links): where, below the target, the first name of each was
 * created. A file that is shown in two ways (as a frame by one name, as plain bytes by another)
 * counts as two files.
 */
#ifndef LINKS_H
#define LINKS_H

#include "frame/names.h"

#include <stdbool.h>
#include <sys/stat.h>

struct links {
	struct link *by_file, *by_path; /* hash tables of the same entries */
};

/* The path at which the first name of this file was created; NULL: none was. */
const char *links_find(const struct links *t, const struct stat *st, enum node_kind kind);

/*
 * Notes that path, which now is the file *made, if it is the first. False: the first one is not the
 * file *made. If out of memory, the next name becomes a separate file.
 */
bool links_add(struct links *t, const struct stat *st, enum node_kind kind, const char *path,
	       const struct stat *made);

/* Another file has replaced the one with that path. */
void links_forget(struct links *t, const char *path);
void links_deinit(struct links *t);

#endif
