/*
 * An open frame, and what was written to it but is not in it yet: one for each
 * inode with open handles, whatever their number.
 *
 *   read    newest bytes first: dirty chunk, flushing chunk, block cache, frame
 *   write   into the dirty copy of each chunk, or of its pages; a full chunk goes to the workers
 *   sync    all dirty chunks - workers - frame - commit
 *
 * Offsets and sizes are those of the file in the mount, in bytes.
 */
#ifndef FS_FILE_H
#define FS_FILE_H

#include "fs/dirty.h"
#include "fs/fs.h"
#include "fs/policy.h"
#include "fs/readahead.h"
#include "fs/reply.h"
#include "fs/sidecar.h"
#include "fs/touched.h"
#include "fs/wish.h"
#include "frame/frame.h"

#include <stdatomic.h>

struct npy;

struct file {
	struct fs *fs;
	struct inode *inode; /* outlives the file: every handle holds a reference */

	/*
	 * Outermost, of those who write bytes: only one at a time waits for `lock`. That goes to
	 * whoever happens to be there, and workers, who need it for a moment to bring a chunk to
	 * the frame, waited for a dozen writers each time.
	 */
	pthread_mutex_t writing;
	/* Changers share it, who commits or truncates has it alone. Before `lock`. */
	pthread_rwlock_t gate;
	struct sidecar sidecar; /* between gate and lock */
	pthread_rwlock_t lock; /* for all down to npy */
	struct frame *frame;
	int fd;                /* the inode's; keeps its number while the file is open */
	uint64_t cache_owner;  /* of its chunks in the cache */
	atomic_bool writable;
	bool gone;             /* has no name and no user: nothing is committed any more */
	bool unborn;           /* the file has no bytes yet: its empty frame is in memory */
	bool lost;             /* what was given up could not even be read anew: all fails */
	struct policy policy;  /* pipelines of the chunks that we write; has a lock of its own */
	struct wish wish;      /* of a file that is written; loaded when it gets writable */
	bool items_whole;      /* chunks of whole items may be there (policy.h) */
	/* of the frame: for writers that do not have the lock yet, and would wait for it */
	_Atomic uint32_t chunk_size;
	atomic_bool wants_commit; /* replaced chunks pile up that a commit makes free */
	struct dirty dirty;
	struct touched touched;   /* since the newest record or durable commit */
	struct intent_mark mark;
	unsigned quick;           /* fsyncs in a row that came fast */
	_Atomic uint64_t synced_at; /* ns: when the last one was done */
	bool replaying;           /* all or nothing: no commit in between */
	struct npy *npy;       /* NODE_ARRAY: fixed after open */
	struct readahead readahead; /* has a lock of its own */

	pthread_mutex_t flight_lock; /* innermost; for the five below */
	pthread_cond_t landed;
	unsigned in_flight;    /* chunks with the workers */
	unsigned replacing;    /* of those: where something is stored already */
	int flush_rc;          /* first failure since the last flush began */
	uint32_t losses;       /* how often something was lost, and why the last time */
	int loss_rc;

	/* budget's: under its lock */
	struct file *newer, *older;
	bool listed;
	unsigned pins;
	uint64_t ticket;
};

/*
 * The file of an inode, opened if need be; a use that file_put ends. `writable`
 * asks for more than a file that is open for reading has: it is reopened.
 * -EROFS for what can't be written (arrays, sparse and variable-size frames).
 */
NODISCARD int file_get(struct fs *fs, struct inode *n, bool writable, struct file **f);

/* The same descriptor, other content: what the file holds now. The lock is held for writing. */
NODISCARD int file_reopen(struct file *f);

/* A file just made, of which nobody knows yet: what opening it would find is known. */
struct newborn {
	int fd;              /* owned; -1: none yet      */
	struct frame *frame; /* owned; it borrows fd     */
	struct wish wish;    /* what the file asks for   */
	struct stat st;      /* as it is under its name  */
};

/*
 * Makes an empty file, just created and still without a name,
 * an empty frame. `mode`: to give it back then; or 0.
 */
NODISCARD int newborn_init_frame(struct newborn *b, const struct options *o, mode_t mode);
void newborn_drop(struct newborn *b);

/* As file_get for writing, of a frame just made; takes what *b owns in every case. */
NODISCARD int file_create_take(struct fs *fs, struct inode *n, struct newborn *b, struct file **f);

/* The last use commits what is left and closes. */
void file_put(struct fs *fs, struct inode *n);

/* The first bytes are about to come into an empty file. The lock is held for writing. */
void file_adopt_pipeline(struct file *f);

/* The options of the mount, with what is wished for this file. */
struct options file_options(const struct file *f);

/* Wishes as they are now: attributes have changed. Alone with the file (file_enter_alone). */
void file_look_wish(struct file *f);

uint64_t file_size(struct file *f);
uint64_t file_size_locked(const struct file *f);

/*
 * Up to q->len bytes from q->at; fewer only at the end of
 * the file. reply_end afterwards in every case.
 */
NODISCARD int file_read(struct file *f, const struct readahead_request *q, struct reply *r);

/* The same into dst; returns how many bytes. */
NODISCARD ssize_t file_read_at(struct file *f, uint64_t at, struct span dst);

/* dst.n bytes from `at`, all of them inside the file; not of an array. The lock is held. */
NODISCARD int file_read_locked(struct file *f, uint64_t at, struct span dst);

/*
 * Decodes what is stored there into the cache, if the lock is free. Failures are for who reads it.
 */
void file_decode_ahead(struct file *f, uint64_t at, uint64_t len);

/* Bytes [lo, lo + dst.n) of a chunk as its frame has it, by way of the cache. The lock is held. */
NODISCARD int file_read_stored(struct file *f, uint32_t n, uint32_t lo, struct span dst);

/* Whose time a change gets: that of now, or one that the kernel will tell us (its writeback). */
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

/* Returns how many bytes were taken, all of them unless something failed half-way. */
NODISCARD ssize_t file_write(struct file *f, const struct file_data *d, enum file_clock clock);

/* A chunk as another frame has it stored. */
struct file_chunk {
	uint32_t n, len;    /* its number here, and its decoded bytes */
	uint32_t size;      /* of the chunks that n counts */
	struct view stored; /* none: a hole */
	struct policy_origin origin;
};

/*
 * Chunk n becomes that one, and the file longer if it ends behind the end. 1: done.
 * 0: this file can't have that chunk at that place.
 */
NODISCARD int file_put_chunk(struct file *f, const struct file_chunk *c);

NODISCARD int file_truncate(struct file *f, uint64_t size);

/* Zeros, without touching the size: whole chunks become holes. */
NODISCARD int file_zero(struct file *f, uint64_t at, uint64_t len);

/* Grows to at least `size`. */
NODISCARD int file_extend(struct file *f, uint64_t size);

/* SEEK_DATA or SEEK_HOLE at chunk precision; -ENXIO past the last data. */
NODISCARD int file_seek(struct file *f, uint64_t at, int whence, uint64_t *found);

/* Alone with the file, both locks held and no chunk with the workers. */
void file_enter_alone(struct file *f);
void file_leave_alone(struct file *f);

/* Everything written so far becomes the frame's next commit. */
NODISCARD int file_sync(struct file *f, enum durability how);

/*
 * What has got to the frame so far becomes a commit, so
 * that the space of what it replaced can be used again.
 */
NODISCARD int file_commit_part(struct file *f);

/* One step of moving chunks to gaps before them. 1: call again. */
NODISCARD int file_compact(struct file *f);

/* Its gaps, if it has any, may stay: a file without changes goes from the budget's list. */
void file_settle(struct file *f);

/*
 * What was written and can't be brought to the disk any more: every handle is told once, by
 * file_take_loss. *seen is the handle's; a new one starts with file_losses.
 */
void file_lose(struct file *f, int rc);
NODISCARD int file_take_loss(struct file *f, _Atomic uint32_t *seen);
uint32_t file_losses(struct file *f);

/*
 * The same with COMMIT_SYNC, or by way of the intent log where that is cheaper. But for `data_only`
 * what has changed of its attributes and names is on the disk as well.
 */
NODISCARD int file_fsync(struct file *f, bool data_only);

/* True: the intent log has bytes of it that are not durable in the frame. */
bool file_in_log(struct file *f);

/* Gives up what was written since the last commit. */
void file_discard(struct file *f);

/*
 * The same for what nobody asked for: chunks that were encoded again and could not be committed. A
 * file with changes of an application keeps all. `theirs`: another program wrote to it meanwhile,
 * and its mtime stays.
 */
void file_take_back(struct file *f, bool theirs);

/* True when something waits for a commit. */
bool file_changed(struct file *f);

#endif
