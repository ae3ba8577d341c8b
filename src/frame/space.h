/*
 * Which bytes of the file may be written.
 *
 *    free --take--> lent --put--> put --use---> used
 *     ^              |             |              | retire
 *     +----give------+----drop-----+              v
 *     +------------- durable -- waiting <-pass- retired
 *
 *    free      no root refers to it
 *    lent      somebody is filling it
 *    put       the next root will refer to it
 *    used      the root on disk refers to it: whatever is in no other state
 *    retired   the root on disk still does; the next one will not
 *    waiting   it does not any more; but the disk may still have an older root that does
 *
 * `use` and `pass` come with the writing of a header, which makes a new root the one on disk;
 * `durable` means that this root and all writes before it have reached the disk. What is used,
 * retired or waiting is never overwritten, so the disk has a whole root at any time.
 *
 * Free extents are kept by offset, so that neighbours can merge, and by length, for best fit. Only
 * taking space can fail for lack of memory; elsewhere, at worst, some free bytes are forgotten.
 * Offsets and lengths are in bytes.
 */
#ifndef FRAME_SPACE_H
#define FRAME_SPACE_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/treap.h"

struct space_extent;

struct space {
	uint64_t end;  /* end of the last byte that is not free          */
	uint64_t high; /* an upper bound for the length of the file      */
	uint32_t nlent;    /* extents that are lent                      */
	uint64_t nfree;    /* free bytes                                 */
	uint64_t nretired; /* bytes that are retired                     */
	uint64_t nwaiting; /* waiting bytes                              */
	struct treap by_at, by_len; /* free extents, by offset and by length      */
	struct treap busy;          /* extents that are lent or put               */
	struct space_extent *retired, *waiting; /* lists of extents               */
};

/* Bytes before sp->end that the next root does not refer to. */
static inline uint64_t space_unused(const struct space *sp)
{
	return sp->nfree + sp->nwaiting + sp->nretired;
}

void space_init(struct space *sp, uint64_t end);
void space_deinit(struct space *sp);

/* Lends len bytes, best fit. -EFBIG: the file would get too long. */
NODISCARD int space_take(struct space *sp, uint64_t len, uint64_t *at);

/* The same, but first fit, from the lowest free extent that begins at or after `least`. */
NODISCARD int space_take_after(struct space *sp, uint64_t len, uint64_t least, uint64_t *at);

/* True: space_take_after would take a place that ends at or before `most`. */
bool space_fits_between(const struct space *sp, uint64_t len, uint64_t least, uint64_t most);

/* As space_take, but from the best fit that ends at or before `most`. -ENOSPC: there is none. */
NODISCARD int space_take_below(struct space *sp, uint64_t len, uint64_t most, uint64_t *at);

/* The next root will use lent bytes (put), or they are not needed after all (give). */
void space_put(struct space *sp, uint64_t at, uint64_t len);
void space_give(struct space *sp, uint64_t at, uint64_t len);

/* Shortens the extent lent at `at` to `len` bytes. */
void space_shorten(struct space *sp, uint64_t at, uint64_t len);

/* True: something is lent, or was put since the last root. */
bool space_is_busy(const struct space *sp);

/* The length of the extent lent at `at`, or put there since the last root; 0: there is none. */
uint64_t space_busy_length(const struct space *sp, uint64_t at);

/*
 * The next root will not refer to what lies at `at`. True if it was put since the last root; then
 * it is free now.
 */
bool space_drop(struct space *sp, uint64_t at);

/* The root on disk refers to these bytes; the next one will not. */
void space_retire(struct space *sp, uint64_t at, uint64_t len);

/* It does not refer to them, but an older root might: they wait. */
void space_wait(struct space *sp, uint64_t at, uint64_t len);

/* The header of a new root may be in the file, even if writing it failed: what was put is used. */
void space_use(struct space *sp);

/* It is there, and the root refers to nothing that was retired: that waits. */
void space_pass(struct space *sp);

/* The root on disk is durable: what waited is free. */
void space_durable(struct space *sp);

/*
 * Cuts off everything from `end` on, none of which may be in use, and forgets what is free, retired
 * or waiting. Nothing may be lent or put.
 */
void space_cut(struct space *sp, uint64_t end);

/*
 * Calls `visit` for the free extents of at least `len` bytes, largest first, until it returns
 * false. *mark is for the visitor to remember what it has done with the extent; it is kept while
 * the extent is free.
 */
void space_each_free(struct space *sp, uint64_t len,
		     bool (*visit)(void *arg, uint64_t at, uint64_t len, bool *mark), void *arg);

/* Asserts the invariants of the data structures; for tests. */
void space_check(const struct space *sp);

#endif
