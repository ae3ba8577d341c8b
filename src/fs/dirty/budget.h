/*
 * A bound on the memory for data that is not in its frame yet, for the whole mount (-o dirty_max).
 * Writers enter here before they take any lock, and wait while the budget is used up; if nobody
 * else frees memory, they flush the file that has waited longest (fs/file/uncommitted.h).
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
 * really added. Those that wait stand in line, by turns of their files (line.h); `data` is what the
 * caller holds meanwhile. With up to 64 KiB it need not wait behind others, as long as no more than
 * a sixteenth beyond the maximum is in use, or 4 MiB.
 *
 * Fails without a reservation, with the error of the flush that should have made room:
 *
 *   -ENOSPC and others  at once
 *   -EIO                may concern a single file: only if no other file's flush makes room either
 *   -EAGAIN, -ESTALE    (share.h), and -EDQUOT up to twice the maximum: only if the error is f's
 *                       own. Beside data that other programs' locks, or another user's quota,
 *                       keep in memory, other files go on with one writer's bytes at a time
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

/* The highest level of level=auto: each one above takes twice the time and saves one percent. */
#define BUDGET_LEVEL_MAX 6

/*
 * The compression level for the next chunk with -o level=auto. Each call raises it by one while
 * little waits to be stored, and lowers it by one while more than half of the maximum waits.
 */
unsigned budget_level(struct budget *b);

/*
 * The buffers that a worker needs to store a chunk of f, each as large as the chunk. If chunks are
 * large, only some of the workers can have theirs at a time: as many as fit beside the dirty bytes,
 * with tables that fit into the cache's share, and always at least one. Files take turns (fair.h).
 * False: not now; a later budget_buffers_next returns *w.
 */
struct budget_buffers {
	struct fair_item item;
	int64_t bytes;
	int64_t tables;        /* of the codec: they are taken out of the cache's share */
};
NODISCARD bool budget_buffers_take(struct budget *b, struct budget_buffers *w, struct file *f);

/* Ends the use of both. Then, until it returns NULL: the next one that can have its buffers. */
void budget_buffers_give(struct budget *b, int64_t bytes, int64_t tables);
struct budget_buffers *budget_buffers_next(struct budget *b);

/* True: a chunk waits for its buffers. */
bool budget_buffers_wanted(struct budget *b);

/* A chunk is handed to the workers (begin); it was stored, or could not be, rc < 0 (end). */
void budget_flight_begin(struct budget *b);
void budget_flight_end(struct budget *b, struct file *f, int rc);

/* What the budget knows of a file, under its lock. Starts zeroed. */
struct budget_file {
	int rc; /* result of the chunk that landed last */
	struct fair_file in_line, for_buffers; /* what of it waits */
};

#endif
