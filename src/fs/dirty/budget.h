/*
 * A bound on the memory for data that is not in its frame yet, for the whole mount (-o dirty_max).
 * Writers enter here before they take any lock, and wait while the budget is used up; if no other
 * thread frees memory, they flush the file that has waited longest (fs/file/uncommitted.h).
 *
 * All sizes are in bytes. Any thread.
 */
#ifndef FS_DIRTY_BUDGET_H
#define FS_DIRTY_BUDGET_H

#include "base/err.h"
#include "fs/dirty/fair.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget;
struct file;
struct fs;

/* The bound and the number of workers come from the options; *fs lasts longer than the budget. */
NODISCARD int budget_open(struct budget **b, struct fs *fs);
void budget_close(struct budget *b); /* with nothing in flight; NULL is fine */

/*
 * Waits until no more than the maximum is in use, then reserves `bytes`, the most that the caller
 * is going to add. budget_leave ends the reservation; by then budget_add has counted what was
 * really added. Waiters queue, and their files take turns (line.h); `data` is the memory that the
 * caller holds meanwhile. A caller with up to 64 KiB need not wait behind others, as long as no
 * more than a sixteenth of the maximum, at most 4 MiB, is in use beyond it.
 *
 * Fails without a reservation, with the error of the flush that should have made room:
 *
 *   -ENOSPC and others  at once
 *   -EIO                may concern a single file: only if no other file's flush makes room either
 *   -EAGAIN, -ESTALE    (share.h), and -EDQUOT and -EFBIG up to twice the maximum: only if the
 *                       error is f's own. While another program's lock, or another user's quota,
 *                       keeps data in memory, other files go on with one writer's bytes at a time
 */
NODISCARD int budget_enter(struct budget *b, uint64_t bytes, size_t data, struct file *f);
void budget_leave(struct budget *b, uint64_t bytes);

/*
 * True: writers wait for memory, and all of it is taken by chunks whose stored form the disk fails
 * to read. Then these chunks are given up, as they would be by a close.
 */
bool budget_gives_up(struct budget *b);

/* Adds to the count of dirty bytes; `bytes` may be negative. */
void budget_add(struct budget *b, int64_t bytes);

/* Everything that is counted: bytes that are in no frame yet, and the buffers of workers. */
uint64_t budget_used(struct budget *b);

/* The highest level of level=auto: each level above takes twice the time and saves one percent. */
#define BUDGET_LEVEL_MAX 6

/*
 * The compression level for the next chunk with -o level=auto. Each call raises it by one while
 * little waits to be stored, and lowers it by one while more than half of the maximum waits.
 */
unsigned budget_level(struct budget *b);

/*
 * The buffers that a worker needs to store a chunk of f, each as large as the chunk. If chunks are
 * large, only some of the workers can have their buffers at a time: as many as fit beside the dirty
 * bytes, with tables that fit into the cache's share, and always at least one. Files take turns
 * (fair.h). False: not now; a later budget_buffers_next returns w.
 */
struct budget_buffers {
	struct fair_item item;
	int64_t bytes;
	int64_t tables;        /* of the codec: they are taken out of the cache's share */
};
NODISCARD bool budget_buffers_take(struct budget *b, struct budget_buffers *w, struct file *f);

/*
 * budget_buffers_give returns both; then call budget_buffers_next, until it returns NULL, for those
 * that can have theirs now.
 */
void budget_buffers_give(struct budget *b, int64_t bytes, int64_t tables);
struct budget_buffers *budget_buffers_next(struct budget *b);

/* True: a chunk waits for its buffers. */
bool budget_buffers_wanted(struct budget *b);

/* A chunk is handed to the workers (begin); it was stored, or with rc < 0 could not be (end). */
void budget_flight_begin(struct budget *b);
void budget_flight_end(struct budget *b, struct file *f, int rc);

/* What the budget knows of a file, under its lock. Starts zeroed. */
struct budget_file {
	int rc; /* result of the chunk that landed last */
	struct fair_file in_line, for_buffers; /* its waiters */
};

#endif
