/*
 * Young chunks: those put since the last sync, which the disk may lack. After a power cut their
 * checksums have to prove that it has them (frame_prove.c); after a failed sync they are written
 * again (redo.c).
 *
 * They are kept as runs of chunk numbers in the encoding of a root's note: pairs of little-endian
 * u32, the first chunk and the number of chunks. A chunk that was put twice may be in two runs, and
 * one that was put and then dropped is still in its run.
 */
#ifndef FRAME_YOUNG_H
#define FRAME_YOUNG_H

#include "base/buf.h"

/* With more runs than this, the next commit syncs before it writes a root. */
#define YOUNG_MAX_RUNS 1024u

/* The same with more bytes of young chunks: after a power cut all of them are read. */
#define YOUNG_MAX_BYTES (1ull << 30)

#define YOUNG_RUN_BYTES 8u

/* Protected by the lock of the frame that it is a part of. */
struct young {
	struct buf runs;
	uint64_t bytes; /* stored bytes of all that were put, also of those replaced since */
	uint32_t since; /* epoch of the oldest: era.h; 0: unknown. Undefined if there are none */
	bool many;      /* some are not in `runs`: too many, or out of memory              */
	bool bare;      /* some have no checksum, for lack of memory                       */
};

/* Chunk n was put, with `len` stored bytes, written in `epoch` or later. */
void young_add(struct young *y, uint32_t n, uint32_t len, uint32_t epoch);

/* Everything put is on the disk. */
void young_clear(struct young *y);
void young_deinit(struct young *y);

/* Chunks first .. end - 1. Those of a run from a file need not exist. */
struct young_run {
	uint64_t first, end;
};

/* Removes the first run from *runs. False: there is none left. */
bool young_next(struct view *runs, struct young_run *run);

#endif
