/*
 * Reads that take long. A read of an array may need one byte from each of 262,144 blocks, which are
 * decoded one after the other: minutes, whatever is cached. Only a few of these run at a time,
 * other threads serve the kernel in their place (relief.h), and each ends when nobody wants it any
 * more.
 *
 * Such a read holds the lock of its file for reading, as an array is never written.
 */
#ifndef FS_READ_SLOW_H
#define FS_READ_SLOW_H

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
 * Call before each part of a read. May wait. -EINTR: nobody wants it any more. -EAGAIN: too many
 * are waiting already.
 */
NODISCARD int slow_go_on(struct fs *fs, struct slow *s);

/* The read has ended. */
void slow_end(struct fs *fs, struct slow *s);

#endif
