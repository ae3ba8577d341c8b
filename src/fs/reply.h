/*
 * What a read answers: pieces in order, some of them decoded for this reply, some in
 * entries of the cache, from where the kernel copies them.
 *
 * The entries stay in use until reply_end, which therefore comes behind the answer; no lock is
 * held then.
 */
#ifndef FS_REPLY_H
#define FS_REPLY_H

#include "base/buf.h"
#include "frame/cache.h"

#include <sys/uio.h>

#define REPLY_PIECES 64

struct reply {
	struct buf own;      /* what was not in the cache, each byte at its place in the reply */
	struct span room;    /* own's, or a place that the caller named                        */
	size_t n;            /* bytes so far                                                   */
	bool copies;         /* all goes to `room`                                             */
	unsigned pieces, nheld;
	struct iovec piece[REPLY_PIECES];
	struct cache_entry *held[REPLY_PIECES];
};

/* An empty reply of at most `size` bytes. */
NODISCARD int reply_begin(struct reply *r, size_t size);

/* One whose bytes all have to get to `dst`. */
void reply_begin_at(struct reply *r, struct span dst);

/* Where the next n bytes go; they count as there. */
struct span reply_room(struct reply *r, size_t n);

/*
 * The next bytes are these of an entry. Borrows the entry:
 * takes a reference of its own if it needs one.
 */
void reply_add(struct reply *r, struct cache *cache, struct cache_entry *e, struct view bytes);

/* Lets go of the entries. Every reply that was begun ends. */
void reply_end(struct reply *r, struct cache *cache);

#endif
