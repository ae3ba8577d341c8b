/*
 * Which bytes of the file may be written.
 *
 *    free --take--> lent --put--> used by the next root --root--> used by the root on disk
 *     ^              |             |                                  |
 *     +----give------+----drop-----+      durable                   retire
 *     +---------------------------------------------- waiting <-------+
 *
 * A root is a header that is, or may be, on disk. What a root refers to is not overwritten
 * before a later root without it is durable: until then it waits. `retire` says that the next
 * root will not refer to some bytes; `root` that this root is written; `durable` that it, and
 * all that went before, reached the disk.
 *
 * Free extents are kept by place, so that neighbours join, and by length, for the best fit.
 * Nothing here fails for lack of memory once bytes were handed out; at worst, bytes are forgotten.
 */
#ifndef FRAME_SPACE_H
#define FRAME_SPACE_H

#include "base/bytes.h"
#include "base/err.h"

struct space_extent;

struct space {
	uint64_t end;  /* first byte behind everything in use or waiting */
	uint64_t high; /* how far the file may reach                     */
	uint32_t nlent;    /* extents                                    */
	uint64_t nfree;    /* bytes                                      */
	uint64_t npending; /* bytes that wait for a root                 */
	uint64_t nroot;    /* bytes that wait for a root to be durable   */
	uint32_t seed;     /* of the weights in the treaps               */
	struct space_extent *by_at, *by_len; /* treaps: what is free     */
	struct space_extent *busy;           /* treap: lent, or put since the last root */
	struct space_extent *pending, *root; /* lists: what waits, as counted above    */
};

void space_init(struct space *sp, uint64_t end);
void space_deinit(struct space *sp);

/* Lends room for len bytes: the smallest place that fits. */
NODISCARD int space_take(struct space *sp, uint64_t len, uint64_t *at);

/* The same, but the lowest place at or behind `least`. */
NODISCARD int space_take_behind(struct space *sp, uint64_t len, uint64_t least, uint64_t *at);

/* The same, but the best fit that ends at or before `most`; -ENOSPC: none. */
NODISCARD int space_take_below(struct space *sp, uint64_t len, uint64_t most, uint64_t *at);

/* What is lent will be used by the next root (put), or is not wanted (give). */
void space_put(struct space *sp, uint64_t at, uint64_t len);
void space_give(struct space *sp, uint64_t at, uint64_t len);

/* What is lent at `at` gets shorter. */
void space_shorten(struct space *sp, uint64_t at, uint64_t len);

/* The length of what was put, or lent, there since the last root; 0: nothing. */
uint64_t space_busy_length(const struct space *sp, uint64_t at);

/* No longer wanted in the next root: true if it was put since the last one, and is free now. */
bool space_drop(struct space *sp, uint64_t at);

/* Part of the root on disk, but not of the next. */
void space_retire(struct space *sp, uint64_t at, uint64_t len);

/* Part of neither, though perhaps of one before, which the disk may go back to. */
void space_retire_old(struct space *sp, uint64_t at, uint64_t len);

/*
 * A root was written; or if not `sure`, it may have been, and what waited for it goes on waiting.
 */
void space_root(struct space *sp, bool sure);

/* The newest root is durable: what waited for that is free. */
void space_durable(struct space *sp);

/* Nothing at or behind `end` is in use, and nothing is free or waits before it. */
void space_cut(struct space *sp, uint64_t end);

/*
 * Calls `visit` for free extents of at least `len` bytes, largest first, until it returns false.
 * *mark is kept for the extent while it is free: the visitor's, to tell what it has done with it.
 */
void space_each_free(struct space *sp, uint64_t len,
		     bool (*visit)(void *arg, uint64_t at, uint64_t len, bool *mark), void *arg);

/* Asserts the order of everything; for tests. */
void space_check(const struct space *sp);

#endif
