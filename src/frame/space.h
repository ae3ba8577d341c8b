/*
 * Which bytes of the file may be written.
 *
 *    free --take--> lent --put--> put --root--> used
 *     ^              |             |              | retire
 *     +----give------+----drop-----+              v
 *     +------------- durable -- waiting <-root- retired
 *
 *    free      no root refers to it
 *    lent      somebody fills it
 *    put       the next root will refer to it
 *    used      the root on disk refers to it: all that is in no other state
 *    retired   it still does; the next one will not
 *    waiting   it does not; but the disk may still have an older one, which does
 *
 * `root` is the writing of a header that makes a new root the one on disk; `durable` says that this
 * root and all writes before it have reached the disk. What is used, retired or waiting is never
 * overwritten, so that the disk has a whole root at any time.
 *
 * Free extents are kept by offset, so that neighbours can merge, and by length, for the best fit.
 * Once bytes have been handed out, nothing here fails for lack of memory: at worst, some free bytes
 * are forgotten. Offsets and lengths are in bytes.
 */
#ifndef FRAME_SPACE_H
#define FRAME_SPACE_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/treap.h"

struct space_extent;

struct space {
	uint64_t end;  /* behind all that is not free                    */
	uint64_t high; /* how far the file may reach                     */
	uint32_t nlent;    /* extents that are lent                      */
	uint64_t nfree;    /* free bytes                                 */
	uint64_t nretired; /* bytes that are retired                     */
	uint64_t nwaiting; /* bytes that wait                            */
	struct treap by_at, by_len; /* free extents, by offset and by length      */
	struct treap busy;          /* what is lent or put                        */
	struct space_extent *retired, *waiting; /* lists of extents               */
};

void space_init(struct space *sp, uint64_t end);
void space_deinit(struct space *sp);

/* Lends room for len bytes: the smallest place that fits. -EFBIG: the file would get too long. */
NODISCARD int space_take(struct space *sp, uint64_t len, uint64_t *at);

/* The same, but from the lowest free extent that begins at or behind `least`. */
NODISCARD int space_take_behind(struct space *sp, uint64_t len, uint64_t least, uint64_t *at);

/* True: space_take_behind would take a place that ends at or before `most`. */
bool space_fits_between(const struct space *sp, uint64_t len, uint64_t least, uint64_t most);

/* As space_take, but from the best fit that ends at or before `most`. -ENOSPC: there is none. */
NODISCARD int space_take_below(struct space *sp, uint64_t len, uint64_t most, uint64_t *at);

/* Lent bytes will be used by the next root (put), or are not needed after all (give). */
void space_put(struct space *sp, uint64_t at, uint64_t len);
void space_give(struct space *sp, uint64_t at, uint64_t len);

/* Shortens what is lent at `at` to `len` bytes. */
void space_shorten(struct space *sp, uint64_t at, uint64_t len);

/* True: something is lent, or was put since the last root. */
bool space_is_busy(const struct space *sp);

/* The length of what is lent at `at`, or was put there since the last root; 0: nothing. */
uint64_t space_busy_length(const struct space *sp, uint64_t at);

/*
 * The next root will not refer to what lies at `at`. True if it was put since the last root; then
 * it is free now.
 */
bool space_drop(struct space *sp, uint64_t at);

/* The root on disk refers to these bytes; the next one will not. */
void space_retire(struct space *sp, uint64_t at, uint64_t len);

/* It does not refer to them, but perhaps an older one: they wait. */
void space_wait(struct space *sp, uint64_t at, uint64_t len);

/*
 * A root was written: what was put is used, and what was retired waits. Not `sure`: what was
 * retired stays that, since the write has failed, though it may have reached the file, or since
 * this root refers to it as well.
 */
void space_root(struct space *sp, bool sure);

/* The root on disk is durable: what waited is free. */
void space_durable(struct space *sp);

/*
 * Cuts off everything from `end` on. Nothing there may be in use, and nothing before it free or
 * waiting.
 */
void space_cut(struct space *sp, uint64_t end);

/*
 * Calls `visit` for the free extents of at least `len` bytes, largest first, until it returns
 * false. *mark is the visitor's, to note what it has done with the extent; it is kept while the
 * extent is free.
 */
void space_each_free(struct space *sp, uint64_t len,
		     bool (*visit)(void *arg, uint64_t at, uint64_t len, bool *mark), void *arg);

/* Asserts the invariants of the data structures; for tests. */
void space_check(const struct space *sp);

#endif
