/*
 * A push: when small reads come back to a block, the whole block is put into the kernel's page
 * cache, so that the reads that follow need no request. That takes about as long as answering one
 * of them, and is done after answering the read that came back. When a file has had many small
 * reads, the blocks around the last one are pushed as well: the core that decodes them would only
 * wait for the next request.
 *
 * A push overwrites what the kernel's cache has, and may extend the file there. So only files that
 * nobody has open for writing are pushed. A request that opens the file, or sets its size, during a
 * push is deferred until the push is over.
 *
 * Such a request must not keep its thread waiting. The kernel takes a pushed page only after
 * pending READs of that page are answered, and a READ may stand in its queue behind any number of
 * OPENs: if each of those kept a thread, none would be left for the READ. So the thread that pushes
 * serves the deferred requests afterwards. All files together have one push at a time, so that all
 * other threads go on.
 *
 * If another program has changed the file during a push, the kernel is told of that change again
 * afterwards.
 *
 * If the daemon is killed while a push waits for such a page, it cannot end, and its users hang. So
 * nothing is pushed unless there is a guard that can end that (guard.h).
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
	/* Set by push.c, in its copy of the struct. */
	struct deferred *next;
	bool killpriv;
};

/* A push that is under way. Holds a reference to the inode, and counts as a user of its file. */
struct push {
	struct inode *inode;
	struct file *file;
	uint64_t owner;           /* the inode's cache_owner when it began */
	uint64_t at, len;         /* of the block in the file              */
	struct deferred *waiting; /* under the inode's lock; newest first  */
};

/*
 * Call before a request opens the inode's file, or sets its size by name. 0: it may go on, and no
 * push begins before push_leave. 1: a push is under way. The request was copied, another thread
 * will call its `serve`, and the caller is done with it. -ENOMEM. If d is NULL, -ESTALE instead of
 * 1: the kernel then looks the name up, and asks again.
 */
NODISCARD int push_enter(struct fs *fs, struct inode *n, const struct deferred *d);
void push_leave(struct inode *n);

/*
 * Call before a read of inode n is answered, while its handle certainly exists. True: push_run has
 * to follow, after the answer and reply_end.
 */
bool push_begin(struct fs *fs, struct inode *n, const struct reply *answer, struct push *p);

/* `room`: an empty reply of this thread. A failure is not reported: the next read will meet it. */
void push_run(struct fs *fs, struct push *p, struct reply *room);

/* Call before the session ends: waits for the push that is under way, and prevents any other. */
void push_end(struct fs *fs);

#endif
