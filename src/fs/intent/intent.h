/*
 * The intent log: one hidden file in the backing directory that makes small fsyncs cheap. An
 * fsync may append the bytes that were written since the last one and wait for that alone; the
 * frame gets them a little later, by a commit. What the log holds beyond the frames is applied at
 * the next mount (replay.h). intent/record.h has the format.
 *
 * A record is needed until a root that contains it is durable. When none is needed any more
 * the file is used anew from its start.
 *
 * Whoever appends holds the lock of its file, so that the order of records is that of the states
 * they describe.
 */
#ifndef FS_INTENT_INTENT_H
#define FS_INTENT_INTENT_H

#include "frame/names.h"
#include "fs/backing/backing.h"
#include "fs/intent/record.h"

#define INTENT_ASIDE "cframefs-intent.unapplied."

struct intent;

/* What the log knows of an open file. */
struct intent_mark {
	bool logged;  /* under the log's lock: it has records that are needed */
	uint64_t end; /* under the file's lock: what has to be synced for the newest of them */
};

/*
 * Makes no file before the first record. `backing` is borrowed; at most `max` bytes. NULL in *log:
 * the file system cannot have one.
 */
NODISCARD int intent_open(struct intent **log, const struct backing *backing, uint64_t max);

/* Removes the file unless records in it are needed. NULL is fine, here and below. */
void intent_close(struct intent *log);

/* `wake` is called when there is something to catch up with. Before the first record. */
void intent_on_work(struct intent *log, void (*wake)(void *), void *ctx);

/* The inode number that records give as that of the directory. */
uint64_t intent_directory(const struct intent *log);

/*
 * Appends a finished record of the file. -ENOSPC: full, until all files have caught up; another
 * failure: the log takes no more until then. Not durable before intent_sync(mark->end).
 */
NODISCARD int intent_append(struct intent *log, struct span record, struct intent_mark *mark);

/* Waits until what was appended up to `end` is durable. One sync serves all that wait. */
NODISCARD int intent_sync(struct intent *log, uint64_t end);

bool intent_has(struct intent *log, const struct intent_mark *mark);

/* All that the file has in the log is durable in its frame, or nobody wants it any more. */
void intent_done(struct intent *log, struct intent_mark *mark);

/*
 * The file is closed, and its commit may not be durable yet: intent_settle will sync `fd`, of which
 * it keeps a duplicate. False: no room for that, the caller has to sync.
 */
bool intent_owe(struct intent *log, struct intent_mark *mark, int fd);

/* The file has no name any more, and nobody uses it. */
void intent_removed(struct intent *log, struct intent_mark *mark);

/* Syncs what is owed. False: one of them failed, and the next sync of that file tells nothing. */
bool intent_settle(struct intent *log);

/* The file's records are needed and can't be used now: the log is kept under another name. */
void intent_keep_aside(struct intent *log, struct intent_mark *mark);

/*
 * Once more, where it could not get that name. Before a commit: a new root of that file would make
 * its records look as if they were contained in it.
 */
void intent_try_aside(struct intent *log);

/*
 * True: there are records that are needed; `quiet`: none came for so many seconds, or no more can.
 */
bool intent_waits(struct intent *log, double quiet);

#endif
