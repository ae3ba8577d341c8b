/*
 * The answer to a read: pieces in order, decoded for this reply or in entries of the cache, from
 * where the kernel copies them.
 *
 * The entries stay in use until reply_end, which therefore comes after the answer has been sent; no
 * lock is held then. One thread at a time.
 */
#ifndef FS_FILE_REPLY_H
#define FS_FILE_REPLY_H

#include "base/buf.h"
#include "frame/cache.h"

#include <sys/uio.h>

#define REPLY_PIECES 64

struct reply {
	struct buf own;      /* memory for bytes that are not in the cache                */
	struct span room;    /* all of `own`, or of the place that reply_begin_at was given */
	size_t n;            /* bytes so far                                              */
	bool copies;         /* everything is copied to `room`                            */
	/* in the file: the block to which a small read has come back; len 0: none has */
	struct { uint64_t at; uint32_t len; } again;
	unsigned pieces, nheld;
	struct iovec piece[REPLY_PIECES];
	struct cache_entry *held[REPLY_PIECES];
};

/* An empty reply of at most `size` bytes. */
NODISCARD int reply_begin(struct reply *r, size_t size);

/* An empty reply whose bytes are all copied to `dst`. */
void reply_begin_at(struct reply *r, struct span dst);

/* Adds n bytes, which the caller fills in, or has filled in where reply_next said. */
struct span reply_room(struct reply *r, size_t n);
struct span reply_next(const struct reply *r, size_t n);

/* Adds bytes of an entry. The reply takes a reference of its own to the entry if it needs one. */
void reply_add(struct reply *r, struct cache *cache, struct cache_entry *e, struct view bytes);

/* Releases the entries. Must follow every reply_begin and reply_begin_at. */
void reply_end(struct reply *r, struct cache *cache);

#endif
