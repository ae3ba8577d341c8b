/*
 * The files that have something to commit, those that have had it longest first. The keeper commits
 * them, and a writer that waits for memory has them flushed (fs/dirty/budget.h). Any thread.
 */
#ifndef FS_FILE_UNCOMMITTED_H
#define FS_FILE_UNCOMMITTED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct file;

/* One per mount. Starts zeroed, except for `lock` and `unpinned`, which are initialised. */
struct uncommitted {
	pthread_mutex_t lock; /* innermost; of all below */
	pthread_cond_t unpinned;
	struct file *oldest, *newest;
	uint64_t next_ticket;
};

/* The place of a file on the list, under its lock. Starts zeroed. */
struct uncommitted_place {
	struct file *newer, *older;
	bool listed;
	unsigned pins;   /* while there are any, the file is not freed     */
	uint64_t ticket; /* when it was put at the end of the list         */
};

/* Call when the file has changed since its last commit, or is clean again. */
void uncommitted_add(struct file *f);
void uncommitted_remove(struct file *f);

/*
 * The file that has been on the list longest, if it was put there before `ticket`; else NULL. It is
 * moved to the end of the list, so that a loop with one ticket sees each file once, and is not
 * freed before uncommitted_unpin.
 */
struct file *uncommitted_pin_oldest(struct uncommitted *u, uint64_t ticket);
/* The same for a file that has users. */
void uncommitted_pin(struct file *f);
void uncommitted_unpin(struct file *f);

/* The present ticket: older than that of any file that is put on the list from now on. */
uint64_t uncommitted_ticket(struct uncommitted *u);

/* For the last user of a file: waits until it is no longer pinned. */
void uncommitted_wait_unpinned(struct file *f);

/* True: the file is neither on the list nor pinned, so it can be freed if it has no users. */
bool uncommitted_is_idle(struct file *f);

#endif
