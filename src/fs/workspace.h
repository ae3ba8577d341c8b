/*
 * What a thread needs to touch data, made on first use and freed when the
 * thread ends: a codec scratch and a buffer for replies. The threads of libfuse
 * come and go; those of the pool have their own workspace the same way.
 */
#ifndef FS_WORKSPACE_H
#define FS_WORKSPACE_H

#include "base/buf.h"
#include "codec/parallel.h"
#include "codec/scratch.h"
#include "fs/reply.h"

#include <stdbool.h>

struct workspace {
	struct scratch *scratch;
	struct parallel *parallel; /* NULL before workspace_parallel         */
	struct reply reply; /* bytes on their way to the kernel      */
	struct buf data;   /* of a write, on its way from there (wire.h) */
	struct buf copy;   /* or to another file                     */
	struct buf stored; /* a chunk on its way to the backing file */
	struct buf base;   /* the stored chunk that it replaces      */
	struct buf plain;  /* its decoded bytes                      */
	struct buf edits;  /* the blocks that differ                 */
	struct buf record; /* of the intent log                      */
};

/* This thread's; NULL without memory. Before the first call: workspace_init, once, in main. */
struct workspace *workspace_get(void);
NODISCARD int workspace_init(void);

/*
 * For chunks whose blocks others may help with; NULL without
 * memory. The thread ends before the pool is freed.
 */
struct parallel *workspace_parallel(struct workspace *w, struct pool *pool);

/*
 * Gives back what is too large to be kept for the next time:
 * after each request, and each chunk that was stored.
 */
void workspace_trim(void);

/* That of the main thread, which does not end like others. */
void workspace_end(void);

#endif
