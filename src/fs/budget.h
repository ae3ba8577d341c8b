/*
 * The memory for data that is not in its frame yet: a number the user sets, for
 * the whole mount. Writers enter here, and wait when it is used up, before they take any
 * lock; while nobody else frees memory, they flush the file that has waited longest.
 *
 * The same list says which files have something to commit.
 */
#ifndef FS_BUDGET_H
#define FS_BUDGET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget;
struct file;

NODISCARD int budget_open(struct budget **b, uint64_t max_bytes, unsigned workers);
void budget_close(struct budget *b);

/*
 * Waits until less than the maximum is in use, and then counts `bytes`, the most that the
 * caller may add before budget_leave takes them off again: what it does add counts by budget_add. A
 * failure is that of the flush that should have made room, such as -ENOSPC; nothing is counted
 * then.
 */
NODISCARD int budget_enter(struct budget *b, uint64_t bytes);
void budget_leave(struct budget *b, uint64_t bytes);

/* Dirty bytes that came or went. */
void budget_add(struct budget *b, int64_t bytes);

/* Bytes in memory that are in no frame yet. */
uint64_t budget_used(struct budget *b);

/*
 * The level for the next chunk, where it follows the load: a step up while little waits to be
 * stored, a step down when half of the maximum does.
 */
unsigned budget_level(struct budget *b);

/*
 * What a worker needs to store a chunk: buffers as large as the chunk is. Rooms are given in the
 * order in which they are asked for, to as many as there are workers, and to fewer while the dirty
 * bytes leave no more than a fixed number beside them; to one in any case. False: `job` waits, and
 * is among those that a later budget_room_give returns.
 */
struct pool_job;
struct budget_room {
	struct budget_room *next;
	struct pool_job *job;
	int64_t bytes;
};
NODISCARD bool budget_room_take(struct budget *b, struct budget_room *room);

/* Ends one; returns those that have one now, to be submitted in this order. */
struct budget_room *budget_room_give(struct budget *b, int64_t bytes);

/* True: a chunk waits for room. */
bool budget_room_waits(struct budget *b);

/* A chunk starts on its way to the disk, or arrives there with rc. */
void budget_flight_begin(struct budget *b);
void budget_flight_end(struct budget *b, int rc);

/* The file has changed since its last commit, or is clean again. */
void budget_file_changed(struct budget *b, struct file *f);
void budget_file_clean(struct budget *b, struct file *f);

/*
 * Takes the file that has been on the list longest, but only when it came there
 * before `ticket`, and keeps it from being freed until budget_unpin. NULL: none.
 */
struct file *budget_pin_oldest(struct budget *b, uint64_t ticket);
void budget_unpin(struct budget *b, struct file *f);
uint64_t budget_ticket(struct budget *b);

/* Called by the last user of a file: waits until nobody has it pinned. */
void budget_wait_unpinned(struct budget *b, struct file *f);

/* True: neither on the list nor pinned; it can be freed if it has no users. */
bool budget_file_idle(struct budget *b, struct file *f);

#endif
