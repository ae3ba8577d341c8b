/* What is in a directory, and what a mount would show of it. */
#ifndef LISTING_H
#define LISTING_H

#include "frame/names.h"

#include <limits.h>
#include <sys/stat.h>

#define LISTING_DEEPEST 2000 /* directories in each other, whose calls fit on the stack */

/* An entry of a directory. */
struct entry {
	char *name;
	struct stat st;
	enum node_kind kind; /* listing_show finds it out: of a directory of frames */
	int rc;      /* < 0: what it is could not be found out   */
	bool looked; /* st, kind and rc are set                  */
};

/* A directory by its names, in order. */
struct listing {
	int fd; /* borrowed */
	struct entry *entry;
	size_t n;
};

NODISCARD int listing_read(struct listing *l, int fd);
void listing_free(struct listing *l);

/* The entry of that name, or NULL. */
struct entry *listing_find(struct listing *l, const char *name);

/* Fills in its attributes, or e->rc. */
void listing_stat(struct listing *l, struct entry *e);

/* The entry that a mount shows as `shown`, or NULL. */
struct entry *listing_owner(struct listing *l, const char *shown);

/*
 * What an entry is, and its name in a mount. False: it is hidden. Where another entry has the name
 * that it claims it is NODE_PLAIN, under its own.
 */
bool listing_show(struct listing *l, struct entry *e, char shown[static NAME_MAX + 1]);

/* How long a mount shows a file, and what is stored of it. Its kind is known. */
NODISCARD int listing_size(struct listing *l, const struct entry *e, uint64_t *size,
			   uint64_t *stored);

#endif
