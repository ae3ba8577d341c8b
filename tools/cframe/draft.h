/*
 * Drafts: files that are created under a temporary name, and get their own when they are complete.
 * Each draft that was opened ends with draft_finish or draft_drop.
 */
#ifndef DRAFT_H
#define DRAFT_H

#include "extras.h"

#include <stdbool.h>
#include <sys/stat.h>

/* How many drafts there can be at a time. */
#define DRAFTS_MAX 1024

/* A file under a temporary name, in the directory `dir`. */
struct draft {
	int dir; /* borrowed */
	int fd;  /* -1: not a regular file, or a hard link to one */
	bool linked; /* a hard link to a file, whose attributes stay */
	char name[32];
	struct live *live;
};

/* From here on, a signal that ends the program removes all drafts. */
void draft_end_with_signals(void);

/*
 * Create a draft in `dir`: a regular file; a symlink to `text`; a device node or FIFO with the type
 * and device number of *st; a hard link to the file `path`, which is below the directory `from`.
 * Only for the main thread, which receives the signals. -ENFILE: there are DRAFTS_MAX of them.
 */
NODISCARD int draft_open(struct draft *d, int dir);
NODISCARD int draft_symlink(struct draft *d, int dir, const char *text);
NODISCARD int draft_node(struct draft *d, int dir, const struct stat *st);
NODISCARD int draft_link(struct draft *d, int dir, int from, const char *path);

/*
 * Sets the attributes, unless it is a hard link, and then the name. `replace`: even if a file has
 * that name; otherwise -EEXIST. If this fails, the draft is removed.
 */
NODISCARD int draft_finish(struct draft *d, const struct stat *st, struct extras *x,
			   const char *name, bool replace);

/* Closes and removes the draft. */
void draft_drop(struct draft *d);

/* Removes drafts that killed programs have left in a directory. */
void drafts_remove_left(int dir);

/* Sets owner, extras, mode and times of an open file or directory. */
NODISCARD int give_attributes(int fd, const struct stat *st, struct extras *x);

#endif
