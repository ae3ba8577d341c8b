/*
 * Extended attributes and ACLs that are copied from one file to another. It is no failure of the
 * file if some cannot be copied: extras.rc says so, and the caller reports it.
 */
#ifndef EXTRAS_H
#define EXTRAS_H

#include "base/buf.h"

#include <stdbool.h>

struct extras {
	struct buf all; /* names and values */
	int rc; /* why one could not be read or set; 0: all could */
};

/* Reads those of an open file. *x must be zeroed; call extras_free on it. */
void extras_load(struct extras *x, int fd);

/* Sets them. ACLs that are not among them are removed, other attributes stay. */
void extras_give(struct extras *x, int fd);

/* True: the file has these and no others. False also if they are in another order. */
bool extras_are_those_of(const struct extras *x, int fd);
void extras_free(struct extras *x);

#endif
