/*
 * The intent log: a hidden file in the backing directory that makes small fsyncs cheap. An fsync
 * may append the bytes that were written since the last one, and wait only for those; the frame
 * gets them a little later, by a commit. What the log holds beyond the frames is applied at the
 * next mount (replay.h). The format is in intent/record.h.
 *
 * A record is needed until a root that contains its bytes is durable. When no record is needed any
 * more, the file is reused from its start.
 *
 * Records are appended under the lock of the file in question, so their order is that of the states
 * that they describe.
 */
#ifndef FS_INTENT_INTENT_H
#define FS_INTENT_INTENT_H

#include "frame/names.h"
#include "fs/backing/backing.h"
#include "fs/intent/record.h"

#include <stdatomic.h>

/*
 * The name, followed by a number, by which the log's file is kept for the user if it has what was
 * synced and is in no frame: a log that could not be applied, or one that goes on without those
 * records (intent_keep_aside).
 */
#define INTENT_ASIDE "cframefs-intent.unapplied."
#define INTENT_ASIDE_MOST 9999 /* the last number */
#define INTENT_ASIDE_SIZE (sizeof INTENT_ASIDE + 10)
void intent_aside_name(unsigned number, char out[static INTENT_ASIDE_SIZE]);

/*
 * How deep in the tree the next mount searches for the frames of a log; each level takes a
 * descriptor.
 */
#define INTENT_DEEPEST 400

struct intent;

/* What the log knows of an open file. */
struct intent_mark {
	bool logged;  /* under the log's lock: the file has records that are needed */
	uint64_t end; /* under the file's lock: where the newest of them ends: intent_sync */
};

/*
 * Opens a log of at most `max` bytes, whose file is created by the first record. `backing` is
 * borrowed. *log is NULL if the file system cannot have one.
 */
NODISCARD int intent_open(struct intent **log, const struct backing *backing, uint64_t max);

/*
 * Closes the log, and removes its file unless records in it are needed. NULL is fine, here and
 * below, except for intent_append, intent_sync and intent_owe.
 */
void intent_close(struct intent *log);

/*
 * Sets a function that is called when files have to be committed for the log. Call this before the
 * first record.
 */
void intent_on_work(struct intent *log, void (*wake)(void *), void *ctx);

/*
 * Appends a finished record of the file; it is not durable before intent_sync(mark->end). -ENOSPC:
 * the log is full until all files have been committed. After any other failure it takes no more
 * records until then, either.
 */
NODISCARD int intent_append(struct intent *log, struct span record, struct intent_mark *mark);

/* Waits until everything up to `end` is durable. One sync serves all that wait. */
NODISCARD int intent_sync(struct intent *log, uint64_t end);

/* True: the log has records of the file that are needed. */
bool intent_has(struct intent *log, const struct intent_mark *mark);

/* Call when all that the log has of the file is durable in its frame, or no longer wanted. */
void intent_done(struct intent *log, struct intent_mark *mark);

/*
 * Call when the file is being closed and its commit may not be durable yet: intent_settle will sync
 * `fd`, of which the log keeps a duplicate. False: there is no room for that, and the caller has to
 * sync.
 */
bool intent_owe(struct intent *log, struct intent_mark *mark, int fd);

/* Call for an unused file that has lost its name: its records are not needed any more. */
void intent_removed(struct intent *log, struct intent_mark *mark);

/*
 * Makes the syncs that are owed. If one fails, sets *failed at once: the next sync of that file
 * proves nothing.
 */
void intent_settle(struct intent *log, atomic_bool *failed);

/*
 * Call for a file whose records are needed but cannot be used now: the log's file gets a second
 * name (INTENT_ASIDE), by which it is kept. intent_has is false from then on.
 */
void intent_keep_aside(struct intent *log, struct intent_mark *mark);

/*
 * Also gives the second name, for a file of which a part will be lost. But the records stay in the
 * log: the next mount may need them for the rest, until that is durable (intent_done). If the name
 * cannot be given now, this acts as intent_keep_aside.
 */
void intent_link_aside(struct intent *log, struct intent_mark *mark);

/*
 * Tries again to give the log's file that name, if that has failed. Call before commits: a new root
 * of the file in question would make its records look as if they were contained in it.
 */
void intent_retry_aside(struct intent *log);

/* True: records are needed, and none was appended for `quiet` ns, or none can be. */
bool intent_waits(struct intent *log, uint64_t quiet);

#endif
