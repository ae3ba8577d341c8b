/*
 * What a thread needs to work on data: a codec scratch, and buffers that are reused. Made on first
 * use by a thread and freed when the thread ends; libfuse's threads come and go.
 *
 * A function that takes a workspace leaves its result in the buffer that its comment names. It is
 * valid until the next call that uses the same buffer.
 */
#ifndef FS_WORKSPACE_H
#define FS_WORKSPACE_H

#include "base/buf.h"
#include "codec/parallel.h"
#include "codec/scratch.h"
#include "fs/read/reply.h"

struct workspace {
	struct scratch *scratch;
	struct parallel *parallel; /* NULL before workspace_parallel                         */
	struct reply reply;        /* the answer to a read                                   */
	struct buf data;           /* of a write request, as it came from the kernel: wire.h */
	struct buf copy;           /* plain bytes for copying and comparing                  */
	struct buf stored;         /* an encoded chunk, on its way to the backing file       */
	struct buf base;           /* the stored chunk that it replaces                      */
	struct buf plain;          /* decoded bytes of a chunk                               */
	struct buf edits;          /* struct chunk_edit: runs of blocks that differ from base */
	struct buf record;         /* a record of the intent log                             */
};

/* The workspace of this thread; NULL: out of memory. main calls workspace_init once before. */
struct workspace *workspace_get(void);
NODISCARD int workspace_init(void);

/*
 * For encoding a chunk with the help of the pool's other workers; NULL: out of memory. The thread
 * must end before the pool is closed.
 */
struct parallel *workspace_parallel(struct workspace *w, struct pool *pool);

/*
 * Lends the calling thread another workspace in place of its own, until workspace_return. All
 * threads share that one, so that those which serve the kernel do not each keep buffers for large
 * chunks. False: another thread has it.
 */
bool workspace_borrow(void);
void workspace_return(void);

/* Call before the pool is closed, when no thread borrows any more. */
void workspace_end_spare(void);

/* Call when the bytes are no longer needed: frees a buffer that is too large to keep. */
void workspace_done(struct buf *b);

/*
 * The same for everything that storing a chunk uses. Called after each request and each stored
 * chunk.
 */
void workspace_trim(void);

/*
 * Frees the workspace of the calling thread. For the main thread, which does not free it when it
 * ends.
 */
void workspace_end(void);

#endif
