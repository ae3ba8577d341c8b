/*
 * Which source files have taken which names in the target, if there are several sources: a file of
 * a later source may have the size and time of the one there, but other bytes.
 */
#ifndef TAKERS_H
#define TAKERS_H

#include <stdbool.h>
#include <sys/stat.h>

struct takers {
	struct taker *by_path; /* hash table */
};

/* The file with those attributes has taken `path`. If out of memory, this is forgotten. */
void takers_put(struct takers *t, const char *path, const struct stat *st);

/* True: another file has taken it. */
bool takers_has_other(const struct takers *t, const char *path, const struct stat *st);
void takers_deinit(struct takers *t);

#endif
