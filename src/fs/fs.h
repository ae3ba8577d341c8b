/*
 * One mount: what every room of this floor shares. Opened by fs_open before the first request,
 * fixed afterwards; each part guards its own state.
 *
 * Locks, each to be taken before those below it:
 *
 *   seeks.sending  the kernel is made to send what it has; nothing else is held  (ops/seek.h)
 *   file.writing   one writer at a time                                          (file/file.h)
 *   file.gate      shared by writers of bytes; alone: commit, truncate
 *   inode.lock     who opens and closes; times                                   (inode/inode.h)
 *   file.sidecar   the lock file that other programs use                         (file/sidecar.h)
 *   file.lock      what the file holds
 *   one of the others: inode table, intent log, and what guards a single part
 *
 * Where the inode's lock is held first, the gate is only tried for, and the sidecar only for a
 * moment. Of the others, one is taken within another in three places only: the cache's within that
 * of memory for large blocks (large.h), which is waited for with the file's lock held; the budget's
 * within that of a file's chunks on their way (file_flight); the pool's within that of a file's
 * readahead.
 *
 * The intent log's is held while a record is written; those of budget and cache never across I/O or
 * codec work. No lock of any kind is held across a reply: the reply may be the kernel's last
 * reference.
 */
#ifndef FS_FS_H
#define FS_FS_H

#include "base/pool.h"
#include "frame/cache.h"
#include "fs/backing/absent.h"
#include "fs/backing/backing.h"
#include "fs/backing/probe.h"
#include "fs/dirty/budget.h"
#include "fs/dirty/spare.h"
#include "fs/file/glimpse.h"
#include "fs/file/kept.h"
#include "fs/inode/inode.h"
#include "fs/intent/intent.h"
#include "fs/large.h"
#include "fs/ops/seek.h"
#include "fs/ops/wire.h"
#include "fs/options.h"
#include "fs/relief.h"

#include <stdatomic.h>

struct fuse_session;
struct keeper;
struct notify;

struct fs {
	struct options opt;
	struct backing backing;
	struct probes *probes;
	struct inodes *inodes;
	struct cache *cache;
	struct large *large;
	struct glimpses glimpses;
	struct pool *pool;
	struct budget *budget;
	struct spare *spare;
	struct intent *intent; /* NULL: off */
	struct kept kept;
	struct fuse_session *session;
	struct wire wire;
	struct keeper *keeper; /* from before the first request on */
	/* gets memory for the cache; submitted by a reader that finds that it wants some */
	struct pool_job warm;
	atomic_bool warming;
	/* of a file that was not open for writing: what is opened is suspect */
	atomic_bool sync_failed;
	atomic_bool kernel_reads_ahead; /* as far as was asked for */
	struct notify *notify; /* while it serves */
	struct absent absent;
	struct seek_queue seeks;
	atomic_int pushing; /* who may push a block to the kernel: ops/push.c */
	struct relief relief;
	/* linkat by the descriptor alone is refused: to root, to root with another's identity */
	atomic_bool no_link_by_fd[2];
	unsigned threads; /* that serve requests */
	uint64_t began; /* meter_now, for the statistics */
};

/*
 * fs_init copies the options, fits them into what the process may take (fit.h), and opens
 * nothing. fs_open opens the parts, and brings into the frames what a crash left in the intent log;
 * every failure has left a line in the log. fs_close is for after either, also a failed fs_open.
 * The options' strings stay the caller's.
 */
void fs_init(struct fs *fs, const struct options *o);
NODISCARD int fs_open(struct fs *fs);
void fs_close(struct fs *fs);

#endif
