/*
 * Shared by the two simulations of power cuts (crash_replay.c, frame_crash.c): calls that change a
 * file, the disks that a power cut could leave after them, torn at 512 bytes, and the content of a
 * frame as a hash. Included once in each program.
 */
#ifndef TESTS_CRASH_DISK_H
#define TESTS_CRASH_DISK_H

#include "base/buf.h"
#include "base/sum.h"
#include "frame/frame_impl.h"

#include <stdlib.h>

#define SECTOR 512u

static unsigned seed;

static uint32_t draw(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(seed >> 1) * n) >> 31);
}

/* Content of the file after some commit. */
struct state {
	uint64_t hash, size;
};

struct call {
	enum { CALL_WRITE, CALL_TRUNCATE, CALL_PUNCH } kind;
	uint64_t at, len;
	uint8_t *bytes;
};

static int ensure(struct buf *b, uint64_t n)
{
	if (n > b->n) {
		TRY(buf_reserve(b, n > b->cap ? 2 * n : n));
		memset(b->p + b->n, 0, n - b->n);
		b->n = n;
	}
	return 0;
}

static void apply_write(struct buf *b, uint64_t at, const uint8_t *bytes, uint64_t len)
{
	if (ensure(b, at + len) < 0)
		abort();
	memcpy(b->p + at, bytes, len);
}

static void apply_truncate(struct buf *b, uint64_t size)
{
	if (ensure(b, size) < 0)
		abort();
	b->n = size;
}

static void apply_punch(struct buf *b, uint64_t at, uint64_t len)
{
	if (at < b->n)
		memset(b->p + at, 0, min_u64(len, b->n - at));
}

static uint64_t sum_of(struct view v)
{
	return v.n ? sum64_not_0(v) : 0;
}

/* All of a write reaches the disk, or just some of its sectors. */
static void tear(struct buf *b, const struct call *c)
{
	for (uint64_t lo = c->at; lo < c->at + c->len;) {
		uint64_t hi = min_u64((lo / SECTOR + 1) * SECTOR, c->at + c->len);
		if (draw(2))
			apply_write(b, lo, c->bytes + (lo - c->at), hi - lo);
		lo = hi;
	}
}

static void apply(struct buf *b, const struct call *c, bool whole)
{
	if (c->kind == CALL_TRUNCATE)
		apply_truncate(b, c->at);
	else if (c->kind == CALL_PUNCH)
		apply_punch(b, c->at, c->len);
	else if (whole)
		apply_write(b, c->at, c->bytes, c->len);
	else
		tear(b, c);
}

static void forget_calls(struct call *call, size_t *ncalls)
{
	while (*ncalls)
		free(call[--*ncalls].bytes);
}

/*
 * A disk that a power cut could leave: `safe`, which was synced, and some of the calls since then.
 * There are five kinds: all calls up to one, which is torn; all but one; just one; random sectors
 * of random calls; the same, but lengths have arrived before their bytes. Calls that touch the same
 * bytes keep their order, as in a page cache.
 */
static void build_disk(struct buf *b, struct view safe, const struct call *call, size_t ncalls)
{
	uint32_t kind = draw(5), n = (uint32_t)ncalls, one = n ? draw(n) : 0, odds = 1 + draw(7);
	b->n = 0;
	if (buf_append(b, safe) < 0)
		abort();
	for (uint32_t i = 0; i < n; i++) {
		const struct call *c = &call[i];
		bool drawn = draw(8) < odds;
		if (kind == 0 && i <= one)
			apply(b, c, i < one);
		else if ((kind == 1 && i != one) || (kind == 2 && i == one))
			apply(b, c, true);
		else if (kind >= 3 && drawn)
			apply(b, c, draw(3) > 0);
		else if (kind == 4 && c->kind == CALL_WRITE && ensure(b, c->at + c->len) < 0)
			abort();
	}
}

/* The whole content, or an error. */
static int content(struct frame *f, struct scratch *s, struct state *st)
{
	struct buf b = {0};
	st->size = frame_size(f);
	TRY(buf_reserve(&b, st->size + 1));
	int rc = 0;
	for (uint32_t n = 0; rc == 0 && n < frame_nchunks(f); n++) {
		struct frame_span sp = frame_chunk_span(f, n);
		rc = frame_read_chunk(f, n, s, span_of(b.p + sp.start, sp.len));
	}
	st->hash = sum_of(view_of(b.p, st->size));
	buf_free(&b);
	return rc;
}

#endif
