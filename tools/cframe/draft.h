/*
 * Files on their way to a directory: each is made under a temporary name, and gets its own when it
 * is complete. Whoever opened a draft ends it, by draft_finish or draft_drop.
 */
#ifndef DRAFT_H
#define DRAFT_H

#include "extras.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Files on their way at the same time. */
#define DRAFTS_MAX 1024

/* A file under a temporary name, until it is given its own. */
struct draft {
	int dir; /* borrowed */
	int fd;  /* -1: not a regular file */
	char name[32];
	struct live *live;
};

/* From here on a signal that ends the program takes all drafts with it. */
void draft_end_with_signals(void);

/* By the main thread, which gets the signals. -ENFILE: there are DRAFTS_MAX. */
NODISCARD int draft_open(struct draft *d, int dir);
NODISCARD int draft_symlink(struct draft *d, int dir, const char *text);
NODISCARD int draft_node(struct draft *d, int dir, const struct stat *st);
NODISCARD int draft_link(struct draft *d, int dir, int from, const char *path);

/*
 * Attributes, then the name; `replace`: also one that is in use, else -EEXIST. It is gone when this
 * fails.
 */
NODISCARD int draft_finish(struct draft *d, const struct stat *st, struct extras *x,
			   const char *name, bool replace);
void draft_drop(struct draft *d);

/* Removes the drafts that a program left in a directory when it was killed. */
void drafts_remove_left(int dir);

/* Owner, extras, mode and times of an open file or directory. */
NODISCARD int give_attributes(int fd, const struct stat *st, struct extras *x);

#endif
