/* What the walk, its items and its folders share. */
#ifndef WALK_IMPL_H
#define WALK_IMPL_H

#include "walk.h"

/* Reports if extended attributes could not all be copied. */
void item_say_extras(struct walk *w, const struct item *i, const struct extras *x);

/*
 * False: the file of that name stays, which is reported unless it is up to date. Sets i->replace.
 */
bool item_may_make(struct walk *w, struct listing *l, const struct entry *e, struct item *i);

/*
 * True: the directory, whose number is that of the target, is where the files go by way of a mount,
 * which shows directories by the numbers that they have behind it.
 */
bool is_behind_target(const struct walk *w, int dir);

/*
 * True: the stamp is a copy of the other one. File systems may store units of 100 ns (NTFS), 1 us
 * (UDF), 10 ms (exFAT), or whole seconds, and FAT two of them.
 */
bool is_stamp_of(const struct walk *w, struct timespec stamp, struct timespec of);

/*
 * Opens a directory of the target, and creates it if it is not there. -EEXIST: something else has
 * the name. *made: it was not there before. If its owner may not write to it, it is opened for the
 * owner until it is finished.
 */
NODISCARD int folder_open(int dir, const char *name, bool *made);

/* The folder in which the walk is, in the target. Takes `fd`, also if it fails: NULL, no memory. */
struct folder *folder_new(struct walk *w, int fd, bool made, const struct stat *st);

#endif
