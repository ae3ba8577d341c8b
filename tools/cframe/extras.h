/*
 * Extended attributes and ACLs, on their way from one file to another. What cannot be kept is no
 * failure of the file: extras.rc says so, and the caller tells it.
 */
#ifndef EXTRAS_H
#define EXTRAS_H

#include "base/buf.h"

struct extras {
	struct buf all;
	int rc; /* why one could not be read, or given; 0: all could */
};
void extras_load(struct extras *x, int fd);
void extras_give(struct extras *x, int fd);
void extras_free(struct extras *x);

#endif
