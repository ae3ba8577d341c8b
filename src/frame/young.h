/*
 * Young chunks: those that were put since the last sync, so that the disk may lack them. After a
 * power cut their checksums have to prove that it has them (frame_prove.c), and after a
 * sync that failed they are written once more (redo.c).
 *
 * They are noted as runs of chunk numbers, in the form in which a root's note has them (root.h):
 * pairs of little-endian u32, the first chunk and how many. A chunk that was put twice may be in
 * two runs, and one that was put and dropped is still in its run.
 */
#ifndef FRAME_YOUNG_H
#define FRAME_YOUNG_H

#include "base/buf.h"

/* More runs than this are not noted: the next commit syncs before its header. */
#define YOUNG_MAX_RUNS 1024u

/* Nor do young chunks of more bytes wait for a sync: after a power cut all of them are read. */
#define YOUNG_MAX_BYTES (1ull << 30)

#define YOUNG_RUN_BYTES 8u

/* Under the lock of the frame that it is a part of. */
struct young {
	struct buf runs;
	uint64_t bytes; /* stored bytes of all that were put, also of those replaced since */
	bool many;      /* some are not in `runs`: there are too many, or memory is short  */
};

/* Chunk n was put, with `len` stored bytes. */
void young_add(struct young *y, uint32_t n, uint32_t len);

/* All that was put is on the disk. */
void young_clear(struct young *y);
void young_deinit(struct young *y);

/* Chunks first .. end - 1. In runs that come from a file they need not exist. */
struct young_run {
	uint64_t first, end;
};

/* Takes the first run off *runs; false: there is none left. */
bool young_next(struct view *runs, struct young_run *run);

#endif
