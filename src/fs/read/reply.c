#include "fs/read/reply.h"

#include <assert.h>

/* Fewer bytes are cheaper to copy than to pass by reference. */
#define HOLD_MIN 4096

static void reset(struct reply *r, struct span room)
{
	r->room = room;
	r->n = r->pieces = r->nheld = 0;
	r->push = (struct reply_push){0};
}

int reply_begin(struct reply *r, size_t size)
{
	TRY(buf_reserve_fresh(&r->own, size ? size : 1));
	reset(r, span_of(r->own.p, size));
	r->copies = false;
	return 0;
}

void reply_begin_at(struct reply *r, struct span dst)
{
	reset(r, dst);
	r->copies = true;
}

static void add_piece(struct reply *r, void *p, size_t n)
{
	struct iovec *last = r->pieces ? &r->piece[r->pieces - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == p)
		last->iov_len += n;
	else
		r->piece[r->pieces++] = (struct iovec){p, n};
	r->n += n;
}

struct span reply_next(const struct reply *r, size_t n)
{
	assert(n <= r->room.n - r->n);
	return span_of(r->room.p + r->n, n);
}

struct span reply_room(struct reply *r, size_t n)
{
	struct span s = reply_next(r, n);
	add_piece(r, s.p, n);
	return s;
}

void reply_add(struct reply *r, struct cache_entry *e, struct view bytes)
{
	/*
	 * When pieces or entries run out, everything that follows is copied into one last piece,
	 * which is kept in reserve. (Neighbours in memory share a piece, but not an entry.)
	 */
	if (r->copies || bytes.n < HOLD_MIN || r->pieces + 2 >= REPLY_PIECES ||
	    r->nheld == REPLY_PIECES) {
		memcpy(reply_room(r, bytes.n).p, bytes.p, bytes.n);
		return;
	}
	cache_hold(e);
	r->held[r->nheld++] = e;
	add_piece(r, (void *)(uintptr_t)bytes.p, bytes.n);
}

void reply_end(struct reply *r, struct cache *cache)
{
	for (unsigned i = 0; i < r->nheld; i++)
		cache_put(cache, r->held[i]);
	reset(r, r->room);
}
