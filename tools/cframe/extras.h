/*
 * Extended attributes and ACLs that are copied from one file to another. It is no failure of the
 * file if some cannot be copied: extras.rc says so, and the caller reports it.
 */
#ifndef EXTRAS_H
#define EXTRAS_H

#include "base/buf.h"

struct extras {
	struct buf all;
	int rc; /* why one could not be read or set; 0: all could */
};
void extras_load(struct extras *x, int fd);
void extras_give(struct extras *x, int fd);
void extras_free(struct extras *x);

#endif
