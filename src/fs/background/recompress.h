/*
 * -o recompress: while the mount receives no requests, one thread of low priority looks for files
 * that have not changed for a while, open or not, and encodes their chunks again at the highest
 * level of their codec. Filters, item sizes and block sizes stay as they are.
 *
 * Replaced chunks are written as in any other change: new bytes to free space, then a commit. So
 * there is nothing to repair after a crash. A finished file gets a mark, an extended attribute of
 * its backing file, which is valid until the file is written to.
 */
#ifndef FS_BACKGROUND_RECOMPRESS_H
#define FS_BACKGROUND_RECOMPRESS_H

#include "fs/fs.h"

struct recompress;

/* Without that option it does nothing, and *r is NULL. */
NODISCARD int recompress_start(struct recompress **r, struct fs *fs);

/* Ends the thread, after the chunk that is being encoded. NULL is fine. */
void recompress_stop(struct recompress *r);

/* The frames that recompress_all has worked on, and the bytes that they take on the disk. */
struct recompress_totals {
	uint64_t files;
	uint64_t failed; /* of these, or never seen; each was logged */
	uint64_t before, after;
	bool stopped; /* before all were done */
};

/*
 * The same for all files at once, cold or not, with all workers. For a directory that is opened but
 * not mounted. `stop` is called between chunks; true: stop.
 */
void recompress_all(struct fs *fs, bool (*stop)(void), struct recompress_totals *t);

#endif
