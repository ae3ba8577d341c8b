/*
 * The bytes of the chunks that were appended to last: a program that opens a file, appends a line
 * and closes it is likely to do so again, and then the chunk need not be decoded. Any thread.
 */
#ifndef FS_DIRTY_RECALL_H
#define FS_DIRTY_RECALL_H

#include "base/buf.h"

#include <pthread.h>
#include <stdbool.h>

#define RECALL_SLOTS 4
#define RECALL_MOST (256u << 10) /* longer chunks are not kept */

/*
 * A stored chunk. The checksum alone would not do: somebody could forge one that equals another
 * file's.
 */
struct recall_key {
	uint64_t owner; /* f->cache_owner: never reused, and new when others change the file */
	uint64_t sum;   /* in the root */
};

struct recall {
	pthread_mutex_t lock;
	unsigned next; /* the slot that is used next */
	struct {
		struct recall_key key;
		struct buf bytes;
	} slot[RECALL_SLOTS];
};

void recall_init(struct recall *r);
void recall_deinit(struct recall *r);

/* Takes over the bytes, or frees them; *bytes is empty afterwards. */
void recall_give(struct recall *r, struct recall_key key, struct buf *bytes);

/* Gives the n bytes of that chunk to the caller. False: they are not there. */
bool recall_take(struct recall *r, struct recall_key key, size_t n, struct buf *out);

#endif
