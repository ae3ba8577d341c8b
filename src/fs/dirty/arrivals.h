/*
 * What has come of a file from the kernel's cache, and what has not. That cache takes write(2) by
 * itself, sends the pages later and in any order, and drops a page whose write was refused (the
 * disk is full). Zeros that nobody wrote must not take the place of such pages. So three lists name
 * the bytes that are missing before newer ones:
 *
 *   gaps     since the last full commit. They may be on their way: a part of a commit ends before
 *            the first of them.
 *   blank    since the last open, fsync or close. Commits leave this list alone: it tells where no
 *            older bytes are, which a refused page would leave in place.
 *   refused  will not come, and nothing older is there. As long as there are any, fsync and close
 *            fail and commits are parts; the last close cuts the file before the first.
 *
 *                               gaps       blank      refused
 *   bytes come, or are cut off  fewer      fewer      fewer
 *   they leave room in front    more       more
 *   they are refused                                  more: where blank, and behind the end
 *   full commit                 fewer
 *   a while passes                         fewer: what is left are holes
 *   fsync, close                           fewer
 *   given up, with holes                              none
 *
 * Under the lock of the file.
 */
#ifndef FS_DIRTY_ARRIVALS_H
#define FS_DIRTY_ARRIVALS_H

#include "fs/dirty/missing.h"

#include <stdbool.h>

struct arrivals {
	struct missing gaps, blank, refused;
	uint32_t refusals;     /* how often bytes were refused ...                        */
	int error;             /* ... why, the last time, and when: meter_now             */
	uint64_t refused_at;
	uint64_t passed;       /* somebody has gone on up to there, a while later         */
	uint64_t blank_at;     /* when `blank` grew last                                  */
	uint64_t aged;         /* the file was as long as that ...                        */
	uint64_t aged_at;      /* ... then. A while later its holes are holes             */
	bool cut;              /* the file was cut before `refused`, and nobody was told  */
};

/* The file was read anew: nothing is missing. What handles know of refusals stays. */
void arrivals_clear(struct arrivals *a);

/* [lo, hi) has come to a file that ended at `size`. */
void arrivals_come(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi);

/* [lo, hi) is part of the file now, but nobody has written it. */
void arrivals_lack(struct arrivals *a, uint64_t lo, uint64_t hi);

/* Nobody waits for [lo, hi) any more: somebody cut it off, or wants zeros there. */
void arrivals_release(struct arrivals *a, uint64_t lo, uint64_t hi);

/* The file ends at `size` now. */
void arrivals_resize(struct arrivals *a, uint64_t size);

/* [lo, hi) was refused by a file that ends at `size`. Older bytes in its place stay. */
void arrivals_refuse(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi, int error);

/* The first `kept` bytes are in a commit that is no part. */
void arrivals_commit(struct arrivals *a, uint64_t kept);

/* The kernel has sent all that it had of the first `size` bytes. */
void arrivals_promise(struct arrivals *a, uint64_t size);

/* True: bytes behind the first that was refused came so long after it that they are newer. */
bool arrivals_are_over(const struct arrivals *a);

/* Gives up what was refused. */
void arrivals_give_up(struct arrivals *a);

#endif
