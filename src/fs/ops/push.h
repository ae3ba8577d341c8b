/*
 * A block to which small reads come back is put into the kernel's page cache, all of it: the reads
 * that follow need no request. It takes about as long as answering one of them, and is done behind
 * the answer of the read that has come back first. So are the blocks around a small read when a
 * file has had many of those: a core decodes them that would wait for the next request.
 *
 * What is put there covers what the kernel has, and makes the file longer for it if need be. So it
 * is done only for files that nobody has open for writing, and whoever opens the file or sets its
 * size while it is under way comes after it.
 *
 * No thread waits for that. The kernel takes a page when the READ of it has been answered, and that
 * READ may lie behind any number of OPENs: if each of those held a thread until the push is over,
 * none would be left for the READ. They are put aside, and served by the thread that pushes. There
 * is one push at a time for all files, so that all other threads go on.
 *
 * If another program has changed the file meanwhile, the kernel is told so once more.
 *
 * A daemon that is killed while it waits for such a page cannot end, and its users hang. So nothing
 * is pushed where no guard could end that (guard.h).
 */
#ifndef FS_OPS_PUSH_H
#define FS_OPS_PUSH_H

#include "fs/ops/ops.h"

struct reply;

/* A request that may have to wait for a push, as the caller of push_enter describes it. */
struct deferred {
	void (*serve)(struct deferred *d); /* serves it after push_enter, and calls push_leave */
	fuse_req_t req;
	fuse_ino_t ino;
	struct fuse_file_info fi;
	struct stat attr;
	int to_set;
	/* push.c's own: of its copy, in the list of those that wait */
	struct deferred *next;
	bool killpriv;
};

/* A push on its way: a reference to the inode, and a use of its file. */
struct push {
	struct inode *inode;
	struct file *file;
	uint64_t owner;           /* the inode's cache_owner when it began */
	uint64_t at, len;         /* of the block in the file              */
	struct deferred *waiting; /* under the inode's lock; newest first  */
};

/*
 * To be called before a request opens the inode's file, or sets its size by name. 0: it may go on,
 * and no push begins before push_leave. 1: a push is under way. The request was copied, another
 * thread will call its `serve`, and the caller is done with it. -ENOMEM. If d is NULL, -ESTALE
 * instead of 1: the kernel then looks the name up, and asks again.
 */
NODISCARD int push_enter(struct fs *fs, struct inode *n, const struct deferred *d);
void push_leave(struct inode *n);

/*
 * To be called before a read of inode n is answered, while its handle certainly exists. True:
 * push_run has to follow, after the answer and reply_end.
 */
bool push_begin(struct fs *fs, struct inode *n, const struct reply *answer, struct push *p);

/* `room`: an empty reply of this thread. A failure is not reported: whoever reads will meet it. */
void push_run(struct fs *fs, struct push *p, struct reply *room);

/* Before the session ends: waits for the push that is under way, and no other begins. */
void push_end(struct fs *fs);

#endif
