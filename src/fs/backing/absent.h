/*
 * Names that did not exist a moment ago. The kernel looks up a name right before it creates it, and
 * lets nobody else into the directory in between. So a name whose lookup has just failed need not
 * be searched for again with every suffix. Only another program could have created it meanwhile,
 * hence the short time.
 */
#ifndef FS_BACKING_ABSENT_H
#define FS_BACKING_ABSENT_H

#include "fs/inode/inode.h"

/*
 * How many names can be noted at a time, as several threads create files. Others are searched for
 * again.
 */
#define ABSENT_SLOTS 8

struct absent {
	pthread_mutex_t lock; /* for all below; innermost */
	unsigned next;        /* the slot that is used next, modulo their number */
	struct absent_name {
		const struct inode *parent; /* never dereferenced: it may be gone */
		uint32_t generation;        /* of the parent */
		uint64_t when; /* meter_now */
		char name[NAME_MAX + 1];
	} slot[ABSENT_SLOTS];
};

/* Notes that nothing in the directory has this name (of at most NAME_MAX bytes). */
void absent_note(struct absent *a, const struct inode *parent, const char *name);

/* True: that was noted a moment ago. The note is removed. */
bool absent_take(struct absent *a, const struct inode *parent, const char *name);

#endif
