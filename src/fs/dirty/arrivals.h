/*
 * Which bytes of a file the kernel's writeback cache has sent, and which not. That cache accepts
 * the data of write(2) by itself, sends the pages later and in any order, and drops a page whose
 * write was refused (the disk is full). Such pages must not be replaced by zeros that nobody wrote.
 * So three lists name the bytes that are missing before newer ones:
 *
 *   gaps     since the last full commit. They may still be on their way, so a partial commit ends
 *            before the first of them.
 *   blank    since the last open, fsync or close. Commits leave this list alone: it tells where
 *            there are no older bytes, which would remain if a page were refused.
 *   refused  they will not come, and there is nothing older. As long as there are any, fsync and
 *            close fail and commits are partial; the last close cuts the file before the first.
 *
 *                               gaps       blank      refused
 *   bytes come, or are cut off  fewer      fewer      fewer
 *   they leave room in front    more       more
 *   they are refused                                  more: where blank, and beyond the end
 *   full commit                 fewer
 *   a while passes                         fewer: what is left are holes
 *   fsync, close                           fewer
 *   given up, with holes                              none
 *
 * All of it is under the lock of the file.
 */
#ifndef FS_DIRTY_ARRIVALS_H
#define FS_DIRTY_ARRIVALS_H

#include "fs/dirty/ranges.h"

#include <stdbool.h>

struct arrivals {
	struct ranges gaps, blank, refused;
	uint32_t refusals;     /* how many times bytes were refused ...                  */
	int error;             /* ... with which error the last time ...                  */
	uint64_t refused_at;   /* ... and when (meter_now)                                */
	uint64_t passed;       /* a while later, bytes up to here were written            */
	uint64_t blank_at;     /* when `blank` last grew                                  */
	uint64_t aged;         /* the file had this length ...                            */
	uint64_t aged_at;      /* ... at this time. A while later its gaps are holes      */
};

/*
 * The file was loaded again: nothing is missing. Keeps the count of refusals, which handles
 * compare.
 */
void arrivals_clear(struct arrivals *a);

/* [lo, hi) was written to a file that ended at `size`. */
void arrivals_come(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi);

/* [lo, hi) is part of the file now, but nobody has written it. */
void arrivals_lack(struct arrivals *a, uint64_t lo, uint64_t hi);

/* [lo, hi) is no longer missing: it was cut off, or is meant to be zeros. */
void arrivals_release(struct arrivals *a, uint64_t lo, uint64_t hi);

/* The file ends at `size` now. */
void arrivals_resize(struct arrivals *a, uint64_t size);

/* The write of [lo, hi) was refused; the file ends at `size`. Older bytes there stay. */
void arrivals_refuse(struct arrivals *a, uint64_t size, uint64_t lo, uint64_t hi, int error);

/* The first `kept` bytes are in a full commit. */
void arrivals_commit(struct arrivals *a, uint64_t kept);

/* The kernel has sent everything that it had of the first `size` bytes. */
void arrivals_promise(struct arrivals *a, uint64_t size);

/*
 * True: bytes beyond the first refused one have come so long after the last refusal that they must
 * have been written later, not just sent later by the kernel.
 */
bool arrivals_passed_refused(const struct arrivals *a);

/* Gives up what was refused: holes take its place. */
void arrivals_give_up(struct arrivals *a);

#endif
