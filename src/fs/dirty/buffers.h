/*
 * The memory that a worker takes to store a chunk, beside the chunk itself: how much it is, and
 * which chunks have to wait for it. The budget counts it (budget_buffers_take).
 */
#ifndef FS_DIRTY_BUFFERS_H
#define FS_DIRTY_BUFFERS_H

#include "fs/fs.h"

struct dirty_chunk;

/*
 * Call for a chunk that has become FLUSHING and whose job is ready: sets c->buffers. True: it has
 * them, and the caller submits the job. False: a later buffers_end, of another chunk, will.
 */
NODISCARD bool buffers_take(struct dirty_chunk *c);

/*
 * Enclose the work on the chunk. `held`: a copy of c->buffers, since the chunk may be freed by the
 * end. buffers_end submits the chunks that can have their buffers then.
 */
void buffers_begin(struct fs *fs, const struct budget_buffers *held);
void buffers_end(struct fs *fs, const struct budget_buffers *held);

#endif
