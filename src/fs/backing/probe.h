/*
 * What an entry of the backing directory is (a frame, an n-dimensional array, a sparse frame or
 * just a file), and its size in the mount. One small read is enough to find out. The result is
 * remembered by device, inode, size, mtime and ctime, so that repeated `ls -l` does not open frames
 * again.
 */
#ifndef FS_BACKING_PROBE_H
#define FS_BACKING_PROBE_H

#include "frame/names.h"
#include "fs/backing/backing.h"

#include <stdint.h>

struct probed {
	enum node_kind kind;
	uint64_t size;      /* decoded bytes; not for NODE_PLAIN */
	uint32_t blocksize; /* for st_blksize                    */
	bool in_use;        /* size and blocksize are not known here: ask the open file */
	bool corrected;     /* size is what an open has found (probe_correct) */
	bool guess;         /* we may not read it: size is its stored size */
	bool fresh;         /* backing_is_fresh when probed: a later change may go unnoticed */
};

struct probes;

/* The results so far. Any thread. */
NODISCARD int probes_open(struct probes **p);
void probes_close(struct probes *p); /* NULL is fine */

/* The entry to be probed; everything is borrowed. */
struct probe_entry {
	int fd;                /* O_PATH, of the entry                               */
	int dirfd;             /* where it is found by its name; -1: not known       */
	const char *name;
	const struct stat *st; /* its attributes                                     */
	int *reader;           /* NULL, or -1: gets the descriptor that a frame was read by, if
				* that was needed; the caller's from then on              */
	bool silent;           /* errors are not logged: the next probe will meet them */
};

/*
 * Sets *out to what the entry is. A frame that does not parse is NODE_PLAIN, which is logged once;
 * one that we have no permission to read is what its name says; any other failure to read is an
 * error, which is not remembered.
 */
NODISCARD int probe_get(struct probes *p, const struct backing *b, const struct probe_entry *e,
			struct probed *out);

/*
 * Corrects the size of a frame to what opening it has found: it went back to an older root, since a
 * chunk of the newest one never got to the disk. True: that was not known before.
 */
bool probe_correct(struct probes *p, const char *name, const struct stat *st,
		   const struct probed *is);

/* True only the first time for a probed entry: for messages that are logged once. */
bool probe_tell_once(struct probes *p, const char *name, const struct stat *st);

#endif
