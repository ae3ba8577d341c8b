/* Shared by the files of replay: replay.c, search.c, apply.c. */
#ifndef FS_INTENT_REPLAY_IMPL_H
#define FS_INTENT_REPLAY_IMPL_H

#include "fs/intent/record.h"
#include "fs/intent/replay.h"

/* A frame that the log names. */
struct wanted {
	uint64_t inode;
	bool found;
};

/* Where a record is in the log, and which file it belongs to. */
struct place {
	uint64_t at;
	uint64_t inode, birth;
	struct frame_roots roots;
};

struct replay {
	struct fs *fs;
	int fd;              /* of the log                                                    */
	uint64_t directory;  /* the inode number of the one that contains it                  */
	uint64_t generation; /* of its first record, and of all that count; 0: not known      */
	struct place *place; /* of each record, in order                                      */
	uint32_t n, cap;
	struct wanted *wanted;
	uint32_t nwanted, nfound;
	bool foreign;        /* the log was written for another directory, or by another user */
	bool blind;          /* not every directory could be searched                         */
	bool by_stat;        /* frames are looked for by stat (search.c)                      */
	bool only_looks;     /* nothing is applied                                            */
	bool said;           /* it was logged that something is                               */
	unsigned applied, failed;
};

/* Reads the record at `at`; *r borrows the bytes in *b. -EBADMSG: there is none. */
NODISCARD int replay_read(int fd, uint64_t at, struct buf *b, struct intent_record *r);

/* NULL: the log does not name this inode number. */
struct wanted *replay_find_wanted(struct replay *x, uint64_t inode);

/*
 * Opens the frame by its name in a directory, and applies its records. Takes e->fd. Returns how
 * many of them the frame did not contain.
 */
NODISCARD int replay_apply(struct replay *x, struct inode *dir, struct entry *e);

/*
 * Searches the whole backing directory for the frames of x->wanted, and applies the records of
 * each: nfound, blind, applied and failed of *x have the outcome.
 */
void replay_look_everywhere(struct replay *x);

#endif
