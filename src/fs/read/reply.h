/*
 * The reply to a read: pieces in order, either decoded for this reply or in entries of the cache,
 * from which the kernel copies them.
 *
 * The entries are held until reply_end, so call that after the reply has been sent, with no lock
 * held. One thread at a time.
 */
#ifndef FS_READ_REPLY_H
#define FS_READ_REPLY_H

#include "base/buf.h"
#include "frame/cache.h"

#include <sys/uio.h>

#define REPLY_PIECES 64

/* Longer blocks are not pushed: that takes too long for a concurrent open of the file. */
#define REPLY_PUSH_MAX (256u << 10)

struct reply {
	struct buf own;      /* memory for bytes that are not in the cache                */
	struct span room;    /* all of `own`, or the `dst` of reply_begin_at              */
	size_t n;            /* bytes so far                                              */
	bool copies;         /* everything is copied to `room`                            */
	/* range of the file to push to the kernel, as more small reads of it are likely */
	struct reply_push { uint64_t at, len; } push;
	unsigned pieces, nheld;
	struct iovec piece[REPLY_PIECES];
	struct cache_entry *held[REPLY_PIECES];
};

/* Begins an empty reply of at most `size` bytes. */
NODISCARD int reply_begin(struct reply *r, size_t size);

/* Begins an empty reply whose bytes are all copied to `dst`. */
void reply_begin_at(struct reply *r, struct span dst);

/*
 * reply_room adds n bytes to the reply and returns where they are, for the caller to fill in;
 * unless it has filled them in before, at the place that reply_next returned.
 */
struct span reply_room(struct reply *r, size_t n);
struct span reply_next(const struct reply *r, size_t n);

/* Adds bytes of a cache entry. The reply takes a reference of its own to it if it needs one. */
void reply_add(struct reply *r, struct cache_entry *e, struct view bytes);

/* Releases the entries. Must follow each reply_begin and reply_begin_at. */
void reply_end(struct reply *r, struct cache *cache);

#endif
