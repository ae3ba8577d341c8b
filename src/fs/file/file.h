/*
 * An open frame, and what was written to it but is not in it yet: one for each
 * inode with open handles, whatever their number.
 *
 *   read    newest bytes first: dirty chunk, flushing chunk, block cache, frame
 *   write   into the dirty copy of each chunk, or of its pages; a full chunk goes to the workers
 *   sync    all dirty chunks -> workers -> frame -> commit
 *
 * Offsets and sizes are those of the file in the mount, in bytes.
 */
#ifndef FS_FILE_FILE_H
#define FS_FILE_FILE_H

#include "frame/frame.h"
#include "frame/policy/policy.h"
#include "frame/policy/wish.h"
#include "fs/dirty/arrivals.h"
#include "fs/dirty/dirty.h"
#include "fs/dirty/touched.h"
#include "fs/file/readahead.h"
#include "fs/file/reply.h"
#include "fs/file/sidecar.h"
#include "fs/fs.h"

#include <stdatomic.h>

struct npy;

/* Chunks with the workers, and what became of them. */
struct file_flight {
	pthread_mutex_t lock;  /* for all below; the budget's is taken within it          */
	pthread_cond_t landed; /* `chunks` went down                                    */
	unsigned chunks;       /* that are FLUSHING ...                                 */
	unsigned replacing;    /* ... and how many of them replace a stored one         */
	int rc;                /* the first failure since the last flush_wait           */
	uint32_t losses;       /* how often data was lost (file_lose) ...               */
	int loss_rc;           /* ... and the error of the last time                    */
};

/* What the next fsync has to make durable, and whether the intent log is the way (file/log.h). */
struct file_unsynced {
	struct touched touched;     /* since the newest log record or durable commit    */
	struct intent_mark mark;    /* what the intent log has of the file              */
	unsigned quick;             /* fsyncs in a row that came shortly after another  */
	_Atomic uint64_t synced_at; /* meter_now, at the end of the newest fsync        */
};

struct file {
	/* Fixed while the file is open. */
	struct fs *fs;
	struct inode *inode; /* outlives the file: every handle holds a reference          */
	int fd;              /* the inode's; keeps its number, not its access mode         */
	struct npy *npy;     /* NODE_ARRAY, else NULL                                      */

	/*
	 * The locks, in order; fs.h has all of it. `writing` is held by whoever writes bytes, so
	 * that only one writer at a time waits for `lock`: workers, who need that for a moment to
	 * put a chunk into the frame, would otherwise queue behind a dozen writers each time.
	 */
	pthread_mutex_t writing;
	pthread_rwlock_t gate;  /* shared by those who change bytes, alone by commit and truncate */
	struct sidecar sidecar; /* locks among processes ... */
	atomic_uint waiting_writers; /* ... and who waits to change the file (share.h) */
	pthread_rwlock_t lock;

	/* Under `lock`: what the file holds. */
	struct frame *frame;
	struct dirty dirty;
	uint64_t cache_owner; /* of its chunks in the cache */
	struct file_unsynced unsynced;
	struct arrivals arrivals; /* what the kernel has yet to send, or will not       */

	/* Under `lock`: how new chunks are stored. */
	struct policy policy; /* also used without it: has a lock of its own               */
	struct wish wish;     /* loaded when the file becomes writable                     */
	bool items_whole;     /* there may be chunks of whole items (policy.h)             */

	/* Change under `lock`; looked at by those who do not hold it yet. */
	atomic_bool wants_commit;    /* frame_wants_commit      */
	_Atomic uint32_t chunk_size; /* that of the frame       */

	/*
	 * What may be done with the file. All change under `lock`, `lost` with the gate held alone
	 * as well; `writable` is looked at by those who hold neither.
	 *
	 *            writable  unborn  lost
	 *   READ     no        no      no
	 *   UNBORN   no        yes     no    0 bytes are below, the frame is in memory only
	 *   WRITE    yes       no      no
	 *   LOST     any       no      yes   what was written since the last commit is discarded,
	 *                                    and the frame could not be read anew: changes and
	 *                                    commits fail, readers get what the old frame has
	 *
	 *   READ, UNBORN -> WRITE    file_make_writable; there is no way back
	 *   READ <-> UNBORN          file_reload: another program has cut the file, or filled it
	 *   any -> LOST              file_discard, and what ends alike (discard.c)
	 *   LOST -> as before        file_reload, as soon as the frame can be read
	 */
	atomic_bool writable;
	bool unborn, lost;
	bool replaying; /* by whoever has it for itself: no commit before the log's end  */

	/* Under n->lock: kept.h. */
	bool kept, told_kept;
	struct file *next_kept; /* under the lock of the list */

	/* These have locks of their own. */
	struct readahead readahead;
	struct file_flight flight;
	struct budget_place place; /* under the budget's                                   */
};

/* A file without a frame, for load.h; and its end, without a commit. NULL is fine. */
struct file *file_new(struct fs *fs, struct inode *n);
void file_free(struct file *f);

/* The options of the mount, overridden by the wishes for this file (wish.h). */
struct settings file_settings(const struct file *f);

/* The wishes: by the name that the file has in the mount, and by its attributes. */
void file_load_wish(struct file *f);

/* Loads the wishes again, after attributes have changed. Between file_enter_alone and leave. */
void file_look_wish(struct file *f);

/*
 * Takes chunk size and pipeline of an empty file from the present options. Called when the first
 * bytes come. The lock is held for writing.
 */
void file_adopt_pipeline(struct file *f);

/* The length that the mount shows, data in memory included. The second form: the lock is held. */
uint64_t file_size(struct file *f);
uint64_t file_size_locked(const struct file *f);

/* True: something waits for a flush or a commit. The second form: the lock is held. */
bool file_changed(struct file *f);
bool file_changed_locked(const struct file *f);

/* True: the intent log has bytes of the file that are not durable in the frame yet. */
bool file_in_log(struct file *f);

/* -E2BIG: chunks so large cannot be written within the memory that the options name. */
NODISCARD int file_check_writing(struct file *f);

#endif
