/*
 * What a backing entry is: a frame, an n-dimensional array, a sparse frame or
 * just a file; and how large it is as seen through the mount. Judged by one
 * small read and remembered by device, inode, size, mtime and ctime, so that
 * `ls -l` opens a frame once.
 */
#ifndef FS_PROBE_H
#define FS_PROBE_H

#include "fs/backing.h"

#include <stdint.h>

enum node_kind {
	NODE_PLAIN,  /* passed through: any file that is not a frame, and directories */
	NODE_FRAME,  /* contiguous frame: its bytes                                   */
	NODE_ARRAY,  /* frame with a b2nd metalayer: an .npy file, read-only          */
	NODE_SPARSE, /* directory of a sparse frame: a file, read-only                */
};

struct probed {
	enum node_kind kind;
	uint64_t size;      /* logical bytes; not for NODE_PLAIN */
	uint32_t blocksize; /* for st_blksize                    */
	bool open;          /* neither is known: the open file says, or said last */
	bool no_acl;        /* while the ctime is that of the entry */
	bool fresh;         /* backing_is_fresh, right before it was looked at first */
};

/* How a name ends. Suffixes alone promise nothing: the content decides. */
enum suffix { SUFFIX_NONE, SUFFIX_FRAME, SUFFIX_ARRAY, SUFFIX_LOCK };
enum suffix suffix_of(const char *name, size_t *stem_len);

struct probes;

NODISCARD int probes_open(struct probes **p);
void probes_close(struct probes *p);

struct probe_entry {
	int fd;                /* O_PATH, of the entry                               */
	int dirfd;             /* where it is found by its name; -1: not known       */
	const char *name;
	const struct stat *st; /* its attributes                                     */
};

/*
 * A frame that does not parse is NODE_PLAIN, and logged once; one that could not be read is an
 * error, which is not remembered. Any thread.
 */
NODISCARD int probe_get(struct probes *p, const struct backing *b, const struct probe_entry *e,
			struct probed *out);

/* True the first time it is asked about a probed entry: for what is logged once. */
bool probe_tell_once(struct probes *p, const char *name, const struct stat *st);

#endif
