/*
 * Young chunks: those that were put since the last sync, so that the disk may lack them. After a
 * power cut their checksums have to prove that it has them (frame_prove.c); after a failed sync
 * they are written again (redo.c).
 *
 * They are noted as runs of chunk numbers in the form of a root's note: pairs of little-endian u32,
 * the first chunk and the number of chunks. A chunk that was put twice may be in two runs, and one
 * that was put and then dropped is still in its run.
 */
#ifndef FRAME_YOUNG_H
#define FRAME_YOUNG_H

#include "base/buf.h"

/* With more runs than this, the next commit syncs before it writes a root. */
#define YOUNG_MAX_RUNS 1024u

/* It does so, too, with more bytes of young chunks: after a power cut all of them are read. */
#define YOUNG_MAX_BYTES (1ull << 30)

#define YOUNG_RUN_BYTES 8u

/* Protected by the lock of the frame that it is a part of. */
struct young {
	struct buf runs;
	uint64_t bytes; /* stored bytes of all that were put, also of those replaced since */
	uint32_t since; /* when the oldest was: era.h; 0: not known. Not defined without any */
	bool many;      /* some are not in `runs`: there are too many, or memory is short  */
	bool bare;      /* some have no checksum, since memory is short                    */
};

/* Chunk n was put, with `len` stored bytes, which were written in `epoch` or later. */
void young_add(struct young *y, uint32_t n, uint32_t len, uint32_t epoch);

/* All that was put is on the disk. */
void young_clear(struct young *y);
void young_deinit(struct young *y);

/* Chunks first .. end - 1. In runs that come from a file they need not exist. */
struct young_run {
	uint64_t first, end;
};

/* Removes the first run from *runs. False: there is none left. */
bool young_next(struct view *runs, struct young_run *run);

#endif
