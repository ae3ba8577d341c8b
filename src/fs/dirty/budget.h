/*
 * A bound on the memory of data that is not in its frame yet, for the whole mount (-o dirty_max).
 * Writers enter here before they take any lock, and wait while it is used up; if nobody else frees
 * memory, they flush the file that has waited longest.
 *
 * The list of those files is also the list of files with something to commit. All sizes are bytes.
 * Any thread.
 */
#ifndef FS_DIRTY_BUDGET_H
#define FS_DIRTY_BUDGET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget;
struct file;

NODISCARD int budget_open(struct budget **b, uint64_t max_bytes, unsigned workers);
void budget_close(struct budget *b); /* nothing is in flight or listed; NULL is fine */

/*
 * Waits until less than the maximum is in use, then reserves `bytes`: the most that the caller is
 * going to add. Writers get in in the order in which they came, so that what the kernel sends from
 * start to end stays in about that order (flush.h). budget_leave ends the reservation; by then what
 * was really added has been counted by budget_add. Fails, without a reservation, with the error of
 * the flush that should have made room, such as -ENOSPC; with -EIO, which may be about one file,
 * only when no other file's flush makes room either. With -EAGAIN and -ESTALE (file/share.h), and
 * up to twice the maximum with -EDQUOT, only if they are f's own: beside what other programs' locks
 * or another's quota keep in memory, others go on with one writer's bytes at a time.
 */
NODISCARD int budget_enter(struct budget *b, uint64_t bytes, struct file *f);
void budget_leave(struct budget *b, uint64_t bytes);

/*
 * True: writers wait for memory that only chunks have which lie over what the disk fails to read.
 * Then these are lost, as they would be by a close.
 */
bool budget_is_pressed(struct budget *b);

/* So many dirty bytes more, or fewer. */
void budget_add(struct budget *b, int64_t bytes);

/* All that is counted: bytes that are in no frame yet, and the workers' buffers. */
uint64_t budget_used(struct budget *b);

/*
 * The compression level for the next chunk with -o level=auto: each call goes a step up while
 * little waits to be stored, and a step down while more than half of the maximum does.
 */
unsigned budget_level(struct budget *b);

/*
 * The buffers that a worker needs to store a chunk, each as large as the chunk. Where chunks are
 * large, only some of the workers may have theirs at a time: as many as fit beside the dirty bytes,
 * in the order in which they asked, and always one. False: not now; a later budget_buffers_give
 * will return this one.
 */
struct pool_job;
struct budget_buffers {
	struct budget_buffers *next;
	struct pool_job *job; /* the caller's, to be submitted when they may be taken */
	int64_t bytes;
};
NODISCARD bool budget_buffers_take(struct budget *b, struct budget_buffers *w);

/*
 * Ends a use of `bytes`. Returns the list of those that may have theirs now: submit them in this
 * order.
 */
struct budget_buffers *budget_buffers_give(struct budget *b, int64_t bytes);

/* True: a chunk waits for its buffers. */
bool budget_buffers_wanted(struct budget *b);

/* A chunk is handed to the workers; it is stored, or could not be (rc < 0). */
void budget_flight_begin(struct budget *b);
void budget_flight_end(struct budget *b, struct file *f, int rc);

/* A file on the list of those with something to commit. Under the budget's lock. */
struct budget_place {
	struct file *newer, *older;
	bool listed;
	int rc;          /* of the newest chunk that landed                            */
	unsigned pins;   /* who must be done with the file before it is freed */
	uint64_t ticket; /* when it came to the end of the list               */
};

/* The file has changed since its last commit, or is clean again. */
void budget_file_changed(struct budget *b, struct file *f);
void budget_file_clean(struct budget *b, struct file *f);

/*
 * The file that has been on the list longest, if it came there before `ticket`; NULL: none. It goes
 * to the end of the list, so that a loop with one ticket sees each file once, and is not freed
 * before budget_unpin.
 */
struct file *budget_pin_oldest(struct budget *b, uint64_t ticket);
void budget_unpin(struct budget *b, struct file *f);

/* The ticket of this moment: older than whatever comes to the list from now on. */
uint64_t budget_ticket(struct budget *b);

/* Called by the last user of a file: waits until nobody has it pinned. */
void budget_wait_unpinned(struct budget *b, struct file *f);

/* True: neither on the list nor pinned; it can be freed if it has no users. */
bool budget_file_idle(struct budget *b, struct file *f);

#endif
