/*
 * One mount: what all parts of the daemon share. fs_open opens it before the first request, and it
 * is fixed afterwards; each part protects its own state.
 *
 * Locks, in the order in which they may be taken:
 *
 *   seeks.sending  the kernel is made to send what it has; nothing else is held  (ops/seek.h)
 *   dir.lock       one reader at a time of an open directory                     (ops/dir.c)
 *   file.writing   one writer at a time                                          (file/file.h)
 *   file.gate      shared by writers of bytes, and a reader's fsync; alone: commit, truncate
 *   refitting      one file at a time is stored again as a whole                 (file/refit.c)
 *   inode.lock     opening and closing; times                                    (inode/inode.h)
 *   file.sidecar   the lock file that other programs use                         (sidecar.h)
 *   file.lock      what the file holds
 *   one of the others: inode table, intent log, and what protects a single part
 *
 * A thread that holds inode.lock may only try-lock the gate, and may wait only briefly for the
 * sidecar. The remaining locks do not nest, with four exceptions: the cache's is taken under that
 * of memory for large blocks (large.h), which a thread may wait for while it holds file.lock; the
 * budget's under that of a file's chunks in flight (file_flight); that of the list of files to
 * commit (uncommitted.h) under the budget's; the pool's under those of a file's readahead and of
 * threads that share a chunk (codec/parallel.h). That of the workspace that threads share is only
 * try-locked, and kept while a chunk is stored (workspace_borrow).
 *
 * The lock of the intent log is held while a record is written. Those of budget and cache are never
 * held across I/O or codec work. No lock of any kind is held across a reply: the reply may drop the
 * kernel's last reference.
 */
#ifndef FS_FS_H
#define FS_FS_H

#include "base/pool.h"
#include "frame/cache.h"
#include "fs/background/checkpoint.h"
#include "fs/backing/absent.h"
#include "fs/backing/backing.h"
#include "fs/backing/probe.h"
#include "fs/dirty/budget.h"
#include "fs/dirty/recall.h"
#include "fs/dirty/spare.h"
#include "fs/file/uncommitted.h"
#include "fs/inode/inode.h"
#include "fs/intent/intent.h"
#include "fs/large.h"
#include "fs/ops/refused.h"
#include "fs/ops/seek.h"
#include "fs/ops/wire.h"
#include "fs/options.h"
#include "fs/read/glimpse.h"
#include "fs/read/slow.h"
#include "fs/relief.h"

#include <stdatomic.h>

struct fuse_session;
struct keeper;
struct notify;

struct fs {
	/* The parts, from fs_open to fs_close. Each has locks of its own; see its header. */
	struct options opt; /* fixed */
	struct backing backing;
	struct probes *probes;
	struct inodes *inodes;
	struct cache *cache;
	struct large *large;
	struct glimpses glimpses;
	struct pool *pool;
	struct budget *budget;
	struct spare *spare;
	struct recall recall;
	struct intent *intent; /* NULL: off */
	struct checkpoint *checkpoint; /* NULL: none are made */
	struct uncommitted uncommitted;
	pthread_mutex_t refitting; /* held while a file is stored anew: file/refit.c */

	/* Serving the kernel. */
	struct fuse_session *session;
	struct wire wire;
	struct keeper *keeper; /* from before the first request until after the last; else NULL */
	struct notify *notify; /* while requests are served; else NULL */
	struct relief relief;
	struct slow_reads slow;
	struct seek_queue seeks;
	struct absent absent;
	struct refused refused;
	unsigned threads; /* how many serve requests; fixed */
	uint64_t began;   /* when (meter_now), for the statistics; fixed */

	/* What has been found out, or is going on. */
	/*
	 * A sync of a file that was not open for writing failed: every file that is opened, or made
	 * writable, from now on is suspect.
	 */
	atomic_bool sync_failed;
	atomic_bool kernel_reads_ahead; /* as far as -o readahead asks */
	atomic_bool guarded; /* if killed, its connection is aborted: guard.h */
	atomic_bool ending; /* `sync` opens the mount point, whatever else is open: stopper.c */
	atomic_bool listings_wait; /* for headers that are not in memory: ops/dir.c */
	/* linkat by descriptor was refused: [0] to root, [1] to root as another user */
	atomic_bool no_link_by_fd[2];
	atomic_int pushing; /* is a block pushed to the kernel? ops/push.c */
	struct pool_job warm; /* fs_warm_cache ... */
	atomic_bool warming;  /* ... is under way  */
};

/*
 * fs_init copies the options, reduces them to what the process can use (fit.h), and opens nothing.
 * fs_open opens the parts, and applies to the frames what a crash left in the intent log; it logs
 * every failure. Call fs_close after either, even if fs_open failed. The strings in the options
 * remain the caller's.
 */
void fs_init(struct fs *fs, const struct options *o);
NODISCARD int fs_open(struct fs *fs);
void fs_close(struct fs *fs);

/* For entry_find and entry_show (backing/entry.h). */
static inline struct finder fs_finder(const struct fs *fs)
{
	return (struct finder){
		.backing = &fs->backing, .probes = fs->probes, .inodes = fs->inodes};
}

/*
 * When it is due, has a worker allocate memory for the blocks to be cached next, so that no reader
 * waits for it (base/slab.h).
 */
void fs_warm_cache(struct fs *fs);

#endif
