/*
 * Reads that take long. A request for an array may take a byte of each of 262,144 blocks, which are
 * decoded for it one after the other: minutes, whatever is cached. Only a few of these go on at a
 * time, other threads serve the kernel in their place (relief.h), and each ends when nobody wants
 * it any more.
 *
 * Such a read holds the lock of its file for reading, as an array is never written.
 */
#ifndef FS_FILE_SLOW_H
#define FS_FILE_SLOW_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file_request;
struct fs;

/* One per mount. Starts zeroed. */
struct slow_reads {
	atomic_uint going, waiting;
};

/* One request. Starts zeroed, except for `q`. */
struct slow {
	const struct file_request *q; /* NULL: nobody waits for an answer */
	uint64_t began, looked;       /* meter_now */
	bool going;
};

/*
 * To be called before each part of a read. May wait. -EINTR: nobody wants it any more. -EAGAIN: too
 * many wait already.
 */
NODISCARD int slow_go_on(struct fs *fs, struct slow *s);

/* The read has ended. */
void slow_end(struct fs *fs, struct slow *s);

#endif
