/*
 * Names that were not there a moment ago. The kernel looks for a name right before it makes it, and
 * lets nobody else into the directory between: what was not there then need not be looked for once
 * more, under all of its suffixes. Only other programs could come between, hence a short time.
 */
#ifndef FS_BACKING_ABSENT_H
#define FS_BACKING_ABSENT_H

#include "fs/inode/inode.h"

/* Names that are made at the same time, by several threads. More than that are looked for again. */
#define ABSENT_SLOTS 8

struct absent {
	pthread_mutex_t lock; /* for all below; innermost */
	unsigned next;        /* the slot that is used next, modulo their number */
	struct absent_name {
		struct inode_key parent;
		uint64_t when; /* meter_now */
		char name[NAME_MAX + 1];
	} slot[ABSENT_SLOTS];
};

/* There is nothing of that name (of at most NAME_MAX bytes) in the directory. */
void absent_note(struct absent *a, const struct inode *parent, const char *name);

/* True: that was noted a moment ago. It is forgotten then. */
bool absent_take(struct absent *a, const struct inode *parent, const char *name);

#endif
