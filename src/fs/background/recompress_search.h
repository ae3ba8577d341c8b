/*
 * Goes through the backing directory, and has the frames that may gain from it compressed again
 * (recompress_file.h). One thread.
 */
#ifndef FS_BACKGROUND_RECOMPRESS_SEARCH_H
#define FS_BACKGROUND_RECOMPRESS_SEARCH_H

#include "fs/background/known.h"
#include "fs/background/recompress.h"

/* Starts zeroed, except for what the caller sets; known_clear frees it. */
struct recompress_search {
	struct fs *fs;
	double cold;       /* a file that has changed in the last so many seconds is left alone */
	struct pool *pool; /* for recompress_job */

	/*
	 * `wait` is called before each look at a file or directory, and may take any time; false:
	 * the search shall end. `stop` is called between chunks; true: call `wait` before the next
	 * one.
	 */
	bool (*wait)(void *ctx);
	bool (*stop)(void *ctx);
	void *ctx;

	/* For whoever waits for it; NULL: nobody does, and only damage is worth a log line. */
	struct recompress_totals *totals;

	struct known known; /* kept from search to search */
};

/* False: `wait` has ended it. */
bool recompress_search(struct recompress_search *s);

#endif
