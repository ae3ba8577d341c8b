/*
 * A block to which small reads come back is put into the kernel's page cache, all of it: the reads
 * that follow need no request. It takes about as long as answering one of them, and is done behind
 * the answer of the read that has come back first.
 *
 * What is put there covers what the kernel has, so that nobody may write to the file meanwhile. It
 * is done only for files that nobody has opened for writing, since they were opened first; and
 * while it is, inode.busy keeps everybody from opening the file (as in preload.h), or from changing
 * its size by name. What another program has changed meanwhile the kernel is told once more.
 *
 * One push at a time for all files: it may wait for a page until another thread has answered the
 * read of that, so that there must be other threads.
 */
#ifndef FS_OPS_PUSH_H
#define FS_OPS_PUSH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file;
struct fs;
struct inode;
struct reply;

/* Who pushes, of all threads of a mount. */
enum push_turn { PUSH_FREE, PUSH_TAKEN, PUSH_ENDED };

/* A push on its way: a reference to the inode, and a use of its file. */
struct push {
	struct inode *inode;
	struct file *file;
	uint64_t owner;   /* the inode's cache_owner when it began */
	uint64_t at, len; /* of the block in the file              */
};

/*
 * Before the answer to a read of inode n, as long as its handle is there for sure. True: push_run
 * has to follow, after the answer and reply_end.
 */
bool push_begin(struct fs *fs, struct inode *n, const struct reply *answer, struct push *p);

/* `room`: an empty reply of this thread. What fails here is left to whoever reads. */
void push_run(struct fs *fs, struct push *p, struct reply *room);

/* Before the session ends: waits for the push that is under way, and no other begins. */
void push_end(struct fs *fs);

#endif
