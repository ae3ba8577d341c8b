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
	pthread_mutex_t lock;  /* innermost; for all below                              */
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
	 * The locks, in order; that of the inode comes behind the gate. `writing`, the outermost,
	 * is held by whoever writes bytes, so that only one writer at a time waits for `lock`:
	 * workers, who need that for a moment to put a chunk into the frame, would otherwise queue
	 * behind a dozen writers each time.
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
	atomic_bool writable;
	atomic_bool wants_commit;    /* frame_wants_commit      */
	_Atomic uint32_t chunk_size; /* that of the frame       */

	/* Why the frame is not to be read or written as usual. */
	bool unborn;    /* under lock: a file of 0 bytes is below, the frame in memory only */
	bool lost;      /* discarded, and could not be read anew: every access fails;
			   changes with the gate held alone, and the lock                  */
	bool replaying; /* by whoever has it for itself: no commit before the log's end  */

	/* Under n->lock: kept.h. */
	bool kept, told_kept;
	struct file *next_kept; /* under the lock of the list */

	/* These have locks of their own. */
	struct readahead readahead;
	struct file_flight flight;
	struct budget_place place; /* under the budget's                                   */
};

/* ---- Opening and closing: file.c ---- */

/*
 * The file of an inode, opened if it is not yet; to be returned by file_put. `writable`: if it was
 * open for reading only, it is made writable. -EROFS for what cannot be written: arrays, sparse
 * frames, frames with chunks of different sizes.
 */
NODISCARD int file_get(struct fs *fs, struct inode *n, bool writable, struct file **f);

/* A file just made that nobody else knows of: what opening it would find is known already. */
struct newborn {
	int fd;              /* owned; -1: none yet      */
	struct frame *frame; /* owned; it borrows fd     */
	struct wish wish;    /* what the file asks for   */
	struct stat st;      /* as it is under its name  */
};

/*
 * Writes an empty frame to the empty file b->fd, which has no name yet. `mode`: to be set again
 * afterwards, since writing may have removed set-id bits; 0: leave it.
 */
NODISCARD int newborn_init_frame(struct newborn *b, const struct settings *s, mode_t mode);
void newborn_drop(struct newborn *b);

/* As file_get for writing, for a frame just made. Takes what *b owns in every case. */
NODISCARD int file_create_take(struct fs *fs, struct inode *n, struct newborn *b, struct file **f);

/* Ends a use. The last one commits what is left and closes the file. */
void file_put(struct fs *fs, struct inode *n);

/*
 * Reads the frame anew, since the backing file has other content now. The descriptor stays; after a
 * failure the old frame stays, too. The lock is held for writing.
 */
NODISCARD int file_reopen(struct file *f);

/* ---- Options and state ---- */

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

/* ---- Reading: read.c, seek.c ---- */

/*
 * Reads q->len bytes from q->at; fewer only at the end of the file. The caller must call reply_end
 * afterwards in every case.
 */
NODISCARD int file_read(struct file *f, const struct readahead_request *q, struct reply *r);

/* The same into dst. Returns the number of bytes. */
NODISCARD ssize_t file_read_at(struct file *f, uint64_t at, struct span dst);

/* Reads dst.n bytes, all of them inside the file. Not for arrays. The lock is held. */
NODISCARD int file_read_locked(struct file *f, uint64_t at, struct span dst);

/* Lets a worker get memory for the next blocks, if it is time: see slab.h. */
void file_warm(struct fs *fs);

/* Decodes blocks into the cache, if the lock is free. Failures are left to whoever reads them. */
void file_decode_ahead(struct file *f, uint64_t at, uint64_t len);

/*
 * Reads bytes [lo, lo + dst.n) of chunk n as stored in the frame, by the cache. The lock is held.
 */
NODISCARD int file_read_stored(struct file *f, uint32_t n, uint32_t lo, struct span dst);

/* SEEK_DATA or SEEK_HOLE at chunk precision; -ENXIO past the last data. */
NODISCARD int file_seek(struct file *f, uint64_t at, int whence, uint64_t *found);

/* ---- Writing: write.c ---- */

/* The time of a change: now, or the kernel will send it later (data from its writeback cache). */
enum file_clock { FILE_CLOCK_NOW, FILE_CLOCK_KERNEL };

/* Bytes to be written, and where. */
struct file_data {
	uint64_t at;
	struct view bytes;
	/*
	 * The buffer that starts with `bytes`, if a chunk may take it over instead of copying them:
	 * it is empty then. NULL: the bytes are only borrowed.
	 */
	struct buf *own;
};

/* Returns how many bytes were written: all of them, or as many as before a failure. */
NODISCARD ssize_t file_write(struct file *f, const struct file_data *d, enum file_clock clock);

/* A chunk in its stored form, copied from another frame. */
struct file_chunk {
	uint32_t n;         /* its number in this file         */
	uint32_t len;       /* its decoded bytes               */
	uint32_t size;      /* the chunk size that n counts in */
	struct view stored; /* no bytes: a hole                */
	struct policy_origin origin;
};

/*
 * Replaces chunk n by this one; the file grows if the chunk ends behind its end. 1: done. 0: the
 * chunk cannot stand there (policy.h, other chunk size), and has to be copied by bytes.
 */
NODISCARD int file_put_chunk(struct file *f, const struct file_chunk *c);

NODISCARD int file_truncate(struct file *f, uint64_t size);

/* The same, for a caller that is alone with the file. */
NODISCARD int file_resize_locked(struct file *f, uint64_t size);

/*
 * budget_enter, for a change of the file. What fills the memory may find room when a file that was
 * just removed is closed: that is waited for.
 */
NODISCARD int file_enter_budget(struct file *f, uint64_t most);

/* Fills with zeros, up to the end of the file: whole chunks become holes. */
NODISCARD int file_zero(struct file *f, uint64_t at, uint64_t len);

/* Grows to at least `size`. */
NODISCARD int file_extend(struct file *f, uint64_t size);

/* Between these two the caller is alone with the file: gate and lock held, no chunk FLUSHING. */
void file_enter_alone(struct file *f);
void file_leave_alone(struct file *f);

/* ---- Flushing and committing: sync.c, commit.c ---- */

/* Brings all that waits in memory into the frame, and commits that. */
NODISCARD int file_sync(struct file *f, enum durability how);

/* The same for who has other files to care for: -EAGAIN, if another program has the lock. */
NODISCARD int file_try_sync(struct file *f, enum durability how);

/*
 * fsync: the same with COMMIT_SYNC, or by way of the intent log where that is cheaper. Unless
 * `data_only` (fdatasync), changed attributes and names are on the disk afterwards, too.
 */
NODISCARD int file_fsync(struct file *f, bool data_only);

/* One of its handles is closed: what was written is committed. */
NODISCARD int file_flush(struct file *f);

/*
 * Commits what is in the frame already, dirty data left out, so that the space of replaced chunks
 * can be used again.
 */
NODISCARD int file_commit_part(struct file *f);

/* Moves some chunks from the end into gaps before them (frame_compact). 1: call again. */
NODISCARD int file_compact(struct file *f);

/* Takes a file without changes off the budget's list; gaps that it may have stay. */
void file_settle(struct file *f);

/* ---- What was refused (dirty/arrivals.h), and what was lost: sync.c ---- */

/* True: bytes are missing whose write was refused. */
bool file_lacks_refused(struct file *f);

/*
 * Before an fsync. As long as bytes are missing whose write was refused, fsync and close fail, and
 * nothing behind them is shown by a commit. Whoever was told by this handle, and still asks, goes
 * on without them: there are holes in their place. *told belongs to the handle and starts as 0.
 */
void file_accept_refused(struct file *f, _Atomic uint32_t *told);

/*
 * The same for a writer that never asks, but has gone on behind them a while later: what came since
 * is not to be cut off. False: nobody has, or it could not be done. Gate and lock are held.
 */
bool file_accept_long_refused(struct file *f);

/*
 * Data was written that no later flush can store: every open handle is told the error once, by
 * file_take_loss. *seen belongs to the handle and starts as file_losses.
 */
void file_lose(struct file *f, int rc);
NODISCARD int file_take_loss(struct file *f, _Atomic uint32_t *seen);
uint32_t file_losses(struct file *f);

#endif
