/*
 * Extended attributes and ACLs that are copied from one file to another. A file does not fail if
 * some cannot be copied: extras.rc says so, and the caller reports it.
 */
#ifndef EXTRAS_H
#define EXTRAS_H

#include "base/buf.h"

#include <stdbool.h>

struct extras {
	struct buf all; /* names and values */
	int rc; /* the error of one that could not be read or set; else 0 */
};

/* Reads those of an open file. *x must be zeroed; call extras_free on it. */
void extras_load(struct extras *x, int fd);

/* Sets them. Removes ACLs that are not among them; other attributes stay. */
void extras_give(struct extras *x, int fd);

/* True: the file has these and no others. False also if they are in another order. */
bool extras_are_those_of(const struct extras *x, int fd);
void extras_free(struct extras *x);

#endif
