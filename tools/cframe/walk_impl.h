/* What the walk, its items and its folders share. */
#ifndef WALK_IMPL_H
#define WALK_IMPL_H

#include "walk.h"

/* Reports if extended attributes could not all be copied. */
void item_say_extras(struct walk *w, const struct item *i, const struct extras *x);

/* False: the existing file stays, which is reported unless it is up to date. Sets i->replace. */
bool item_may_make(struct walk *w, struct listing *l, const struct entry *e, struct item *i);

/*
 * True: the directory, which has the inode number of the target, is the target itself, one of the
 * two seen through a mount: that shows directories with the numbers that they have in the backing
 * directory.
 */
bool is_behind_target(const struct walk *w, int dir);

/*
 * True: `stamp` is a copy of `of`. File systems may store units of 100 ns (NTFS), 1 us (UDF), 10 ms
 * (exFAT), or whole seconds, FAT even two.
 */
bool is_stamp_of(const struct walk *w, struct timespec stamp, struct timespec of);

/*
 * Opens a directory of the target, and creates it if it does not exist. -EEXIST: something else has
 * the name. *made: it was created. If it exists and its mode denies its owner something, the owner
 * gets all permissions until it is finished.
 */
NODISCARD int folder_open(int dir, const char *name, bool *made);

/* The walk's present folder in the target. Takes `fd`, even if it fails: NULL: out of memory. */
struct folder *folder_new(struct walk *w, int fd, bool made, const struct stat *st);

#endif
