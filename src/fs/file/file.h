/*
 * An open frame, and what was written to it but has not been stored in it yet. There is one for
 * each inode with open handles, however many these are.
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
#include "fs/fs.h"
#include "fs/read/readahead.h"
#include "fs/sidecar/sidecar.h"

#include <stdatomic.h>

struct npy;
struct room_wait;

/* The chunks that are with the workers (FLUSHING), and how the earlier ones ended. */
struct file_flight {
	pthread_mutex_t lock;  /* of all below; the budget's is taken within it         */
	pthread_cond_t landed; /* `chunks` has decreased                                */
	unsigned chunks;       /* how many the workers have                             */
	int rc;                /* the first failure since the last flush_wait; else 0   */
	uint32_t losses;       /* how often data was lost (file_lose)                   */
	int loss_rc;           /* the error of the last loss                            */
};

/* What the next fsync has to make durable, and whether it uses the intent log (intent_log.h). */
struct file_unsynced {
	struct touched touched;     /* since the newest log record or durable commit    */
	struct intent_mark mark;    /* what the intent log has of the file              */
	unsigned quick;             /* fsyncs in a row, each shortly after the last     */
	_Atomic uint64_t synced_at; /* meter_now at the end of the last fsync           */
};

struct file {
	/* Fixed while the file is open. */
	struct fs *fs;
	struct inode *inode; /* outlives the file: every handle holds a reference          */
	int fd;              /* the inode's; keeps its number, not its access mode         */
	struct npy *npy;     /* NODE_ARRAY, else NULL                                      */

	/*
	 * The locks, in order; fs.h has the complete order. `writing` is held by a thread that
	 * writes bytes, so that only one writer at a time waits for `lock`. Otherwise workers,
	 * which need `lock` briefly to put a chunk into the frame, would queue behind a dozen
	 * writers each time.
	 */
	pthread_mutex_t writing;
	pthread_rwlock_t gate;  /* shared by those who change bytes, alone by commit and truncate */
	struct sidecar sidecar; /* the lock that other programs use ... */
	atomic_uint waiting_writers; /* ... and how many of ours wait for it */
	pthread_rwlock_t lock;

	/* Under `lock`: what the file holds. */
	struct frame *frame;
	struct dirty dirty;
	uint64_t cache_owner; /* of its chunks in the cache */
	struct file_unsynced unsynced;
	struct arrivals arrivals; /* what the kernel has yet to send, or we refused */

	/* Under `lock`: how new chunks are stored. */
	struct policy policy; /* also used without `lock`: it has a lock of its own        */
	struct wish wish;     /* loaded when the file becomes writable                     */
	/*
	 * Some chunk may be encoded as items of several bytes; then the reference cannot read
	 * slices if the file ends within an item (policy.h). False: certainly none is.
	 */
	bool maybe_typed;
	/*
	 * The header had 1 as the item size when the file was opened, or may have had it until the
	 * last commit, which was partial. So some chunk of single bytes may come from another
	 * program, and not fit beside items.
	 */
	bool maybe_foreign;

	/* Changed under `lock`, but read without it as well. */
	atomic_bool wants_commit;    /* frame_wants_commit      */
	_Atomic uint32_t chunk_size; /* that of the frame, or the last one that it had      */

	_Atomic uint64_t small_reads; /* at random, since the file was opened: fetch_part.c */

	/*
	 * What can be done with the file. All are changed under `lock`, `lost` with the gate held
	 * alone as well; `writable` is also read without either.
	 *
	 *            writable  unborn  lost
	 *   READ     no        no      no
	 *   UNBORN   no        yes     no    the backing file is empty, the frame only in memory
	 *   WRITE    yes       no      no
	 *   LOST     any       no      yes   what was written since the last commit is discarded,
	 *                                    and the frame could not be reloaded: changes and
	 *                                    commits fail, readers get what the old frame has
	 *
	 *   READ, UNBORN -> WRITE    file_make_writable; there is no way back
	 *   READ <-> UNBORN          a reload (share.h): another program has truncated or filled it
	 *   any -> LOST              file_discard, and other functions of discard.c
	 *   LOST -> as before        a reload, as soon as the frame can be read
	 */
	atomic_bool writable;
	bool unborn, lost;
	bool replaying; /* the intent log is being replayed: no commit before its end    */

	/* The daemon keeps the file open by itself (kept.h). Both are under n->lock. */
	bool kept;
	bool told_kept; /* that it is kept has been logged */

	/* The latest failure of a change, if no close or fsync has worked since: ops/data.c. */
	_Atomic int told_rc;

	/* These have locks of their own, or are under that of what they belong to. */
	struct readahead readahead;
	struct file_flight flight;
	struct budget_file budget;
	struct uncommitted_place place;
};

/*
 * file_new makes a file without a frame, for load.h; NULL: out of memory. file_free frees a file,
 * without a commit; NULL is fine.
 */
struct file *file_new(struct fs *fs, struct inode *n);
void file_free(struct file *f);

/* log_err, with the name of the file before the text. */
__attribute__((format(printf, 2, 3))) void file_log_err(const struct file *f, const char *fmt, ...);

/* The options of the mount, overridden by the wishes for this file (wish.h). */
struct settings file_settings(const struct file *f);

/* Loads the wishes for the file: by its name in the mount, and from its attributes. */
void file_load_wish(struct file *f);

/*
 * Loads them again after attributes have changed; what is stored from now on follows them. Called
 * between file_enter_alone and file_leave_alone.
 */
void file_reload_wish(struct file *f);

/*
 * Sets chunk size and pipeline of an empty file by the present options. Called before it gets its
 * first bytes, or gets longer, with the lock held for writing.
 */
void file_adopt_pipeline(struct file *f);

/*
 * Makes what was stored at *p (frame_alloc, frame_write) chunk n of the file, or makes that chunk a
 * hole if p->len is 0. The lock is held for writing. Before anything is stored, the caller must
 * have called caps_note and entered the sidecar (file_enter_store).
 */
void file_replace_chunk(struct file *f, uint32_t n, const struct frame_place *p);

/*
 * The length that the mount shows, including data in memory. For file_size_locked, the lock is
 * held.
 */
uint64_t file_size(struct file *f);
uint64_t file_size_locked(const struct file *f);

/*
 * After a try that returned rc: room_soon. False for a file without a name, which might wait for
 * its own close.
 */
NODISCARD bool file_room_comes(struct file *f, int rc, struct room_wait *w);

/* True: the backing file has a name, even if that was never looked up, or this is not known. */
bool file_has_a_name(const struct file *f);

/* frame_compare_root under the lock, which this takes. */
enum root_match file_compare_root(struct file *f);

/*
 * 0: the content can be changed. -EIO: the file is LOST. -EROFS: it was opened for writing, and
 * another program has since replaced it by a frame that can only be read. The lock is held.
 */
NODISCARD int file_check_change(const struct file *f);

/* True: something waits for a flush or a commit. For file_changed_locked, the lock is held. */
bool file_changed(struct file *f);
bool file_changed_locked(const struct file *f);

#endif
