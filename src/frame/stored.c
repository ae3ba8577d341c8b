#include "frame/stored.h"

#include "frame/io/hash.h"

#include <assert.h>

#define HEAD_STACK 1024 /* header and offsets of most chunks */

/*
 * Blocks may be stored in any order. One read of everything from the first to the last byte of a
 * run is best, unless most of that is other blocks.
 */
#define SPREAD_LIMIT 2
#define SPREAD_SLACK (64u << 10)

/* Reads the stored bytes of a run into the scratch. */
static int fetch(const struct stored *st, const struct chunk *c, struct run run, struct scratch *s,
		 struct span *bytes)
{
	struct extent e = chunk_extent(c, run);
	TRY(scratch_stage(s, e.len, bytes));
	return e.len ? io_pread(st->io, st->at + e.off, *bytes) : 0;
}

static int load_ref(const struct stored *st, struct scratch *s, struct chunk *c)
{
	struct run first = {0, 1};
	struct span bytes;
	TRY(scratch_ask(s, chunk_footprint(c) + chunk_extent(c, first).len +
				   chunk_run_bytes(c, first) +
				   chunk_work(c, first, BLOCK_DECODED)));
	TRY(fetch(st, c, first, s, &bytes));
	TRY(chunk_check(c, first, span_view(bytes)));
	return chunk_load_ref(c, s, span_view(bytes));
}

/*
 * Bytes that chunk_parse allocates per block, at most: where it begins and ends, and a third
 * number: its checksum, its decoded offset, or an entry in a list of sorted offsets.
 */
#define TABLES 12

/* Memory for the first `need` bytes of the partly parsed chunk, and for what parsing keeps. */
static uint64_t head_memory(const struct chunk *c, int need)
{
	return (uint64_t)need * (c->kind == CHUNK_VALUE ? 2 : 1) + TABLES * (uint64_t)c->nblocks;
}

/*
 * Reads the first head->n bytes: to head->p if at most HEAD_STACK, else to the scratch. If the
 * number was a guess and the file ends earlier, reads just what every chunk has.
 */
static int fetch_head(const struct stored *st, bool guess, struct scratch *s, struct span *head)
{
	if (head->n > HEAD_STACK)
		TRY(scratch_stage(s, head->n, head));
	int rc = io_pread(st->io, st->at, *head);
	if (rc != -EBADMSG || !guess || head->n <= CHUNK_HEAD_MIN)
		return rc;
	err_clear();
	head->n = CHUNK_HEAD_MIN;
	return io_pread(st->io, st->at, *head);
}

/* The length of the first fetch is a guess. */
int stored_load_head(const struct stored *st, uint32_t guess, struct scratch *s, struct chunk *c)
{
	uint8_t stack[HEAD_STACK];
	if (st->room < CHUNK_HEAD_MIN)
		return CORRUPT("no room for a chunk", st->room);
	struct span head = {stack, min_u64(st->room, max_u64(guess, CHUNK_HEAD))};
	for (bool first = true;; first = false) {
		TRY(fetch_head(st, first, s, &head));
		int need = chunk_parse(c, span_view(head), st->room, st->item);
		if (need == 0)
			return chunk_sum_check_head(st->sum, c, span_view(head));
		if (need < 0)
			return need;
		if ((size_t)need <= head.n || (uint64_t)need > st->room)
			return CORRUPT("chunk ends past its room", need);
		TRY(scratch_ask(s, head_memory(c, need)));
		head = span_of(stack, (size_t)need);
	}
}

int stored_load(const struct stored *st, uint32_t guess, struct scratch *s, struct chunk *c)
{
	TRY(stored_load_head(st, guess, s, c));
	return chunk_wants_ref(c) ? load_ref(st, s, c) : 0;
}

uint64_t stored_memory(const struct chunk *c, struct run run, enum block_form form)
{
	if (c->kind != CHUNK_REGULAR)
		return 0;
	return chunk_extent(c, run).len + chunk_work(c, run, form);
}

static int read_extent(const struct stored *st, const struct chunk *c, struct run run,
		       struct scratch *s, struct span dst)
{
	struct span bytes;
	TRY(scratch_ask(s, stored_memory(c, run, BLOCK_DECODED)));
	TRY(fetch(st, c, run, s, &bytes));
	return chunk_decode_checked(c, s, run, span_view(bytes), dst);
}

int stored_read_packed(const struct stored *st, const struct chunk *c, uint32_t block,
		       struct scratch *s, struct span dst)
{
	struct run one = {block, 1};
	struct span bytes;
	TRY(scratch_ask(s, stored_memory(c, one, BLOCK_PACKED)));
	TRY(fetch(st, c, one, s, &bytes));
	return chunk_decode_packed(c, s, block, span_view(bytes), dst);
}

int stored_read_part(const struct stored *st, const struct chunk *c, struct chunk_part part,
		     struct scratch *s, struct span dst)
{
	struct run one = {part.block, 1};
	struct span bytes;
	/* the block is decoded in the scratch, as far as necessary */
	TRY(scratch_ask(s, stored_memory(c, one, BLOCK_DECODED) + chunk_run_bytes(c, one)));
	TRY(fetch(st, c, one, s, &bytes));
	return chunk_decode_part(c, s, part, span_view(bytes), dst);
}

/* Reads blocks of plain bytes straight to where they are wanted, without the decoder. */
static int read_plain(const struct stored *st, const struct chunk *c, struct run run,
		      struct scratch *s, struct span dst)
{
	for (uint32_t i = run.first; i < run.first + run.n; i++) {
		struct run one = {i, 1};
		struct extent e = chunk_extent(c, one);
		struct span to = {dst.p, chunk_block_bytes(c, i).len};
		TRY(io_pread(st->io, st->at + e.off + (e.len - to.n), to));
		if (!chunk_plain_fits(c, i, span_view(to)))
			TRY(read_extent(st, c, one, s, to));
		dst = span_from(dst, to.n);
	}
	return 0;
}

static bool run_is_spread(const struct chunk *c, struct run run)
{
	uint64_t sum = 0;
	if (run.n < 2 || c->kind != CHUNK_REGULAR)
		return false;
	for (uint32_t b = run.first; b < run.first + run.n; b++)
		sum += chunk_extent(c, (struct run){b, 1}).len;
	return chunk_extent(c, run).len > SPREAD_LIMIT * sum + SPREAD_SLACK;
}

int stored_read(const struct stored *st, const struct chunk *c, struct run run, struct scratch *s,
		struct span dst)
{
	assert(run.first <= c->nblocks && run.n <= c->nblocks - run.first);
	assert(dst.n == chunk_run_bytes(c, run));
	if (c->kind == CHUNK_STORED) {
		struct extent e = chunk_extent(c, run);
		assert(e.len == dst.n);
		return io_pread(st->io, st->at + e.off, dst);
	}
	if (chunk_run_is_plain(c, run))
		return read_plain(st, c, run, s, dst);
	if (!run_is_spread(c, run))
		return read_extent(st, c, run, s, dst);
	for (uint32_t b = run.first; b < run.first + run.n; b++) {
		struct run one = {b, 1};
		uint32_t n = chunk_run_bytes(c, one);
		TRY(read_extent(st, c, one, s, span_of(dst.p, n)));
		dst = span_from(dst, n);
	}
	return 0;
}

/* Verifies a block that is longer than a step. */
static int check_long(const struct stored *st, const struct chunk *c, uint32_t block)
{
	uint64_t hash;
	uint32_t at = c->bstart[block];
	TRY(io_hash(st->io, st->at + at, c->bend[block] - at, &hash));
	return (uint32_t)hash == c->sums[block] ? 0 : CORRUPT("checksum of a block", block);
}

/* Blocks that have checksums lie in order. */
int stored_check_blocks(const struct stored *st, const struct chunk *c, struct scratch *s)
{
	for (uint32_t b = 0, next; b < c->nblocks; b = next) {
		uint32_t at = c->bstart[b];
		struct span bytes;
		for (next = b + 1; next < c->nblocks && c->bend[next] - at <= IO_STEP;)
			next++;
		if (c->bend[next - 1] - at > IO_STEP) {
			TRY(check_long(st, c, b));
			continue;
		}
		struct run run = {b, next - b};
		TRY(fetch(st, c, run, s, &bytes));
		TRY(chunk_check(c, run, span_view(bytes)));
	}
	return 0;
}

int stored_length(const struct stored *st, uint32_t *len)
{
	uint8_t head[CHUNK_HEAD_MIN];
	uint32_t nbytes;
	if (st->room < sizeof head)
		return CORRUPT("no room for a chunk", st->room);
	TRY(io_pread(st->io, st->at, span_of(head, sizeof head)));
	TRY(chunk_sizes(view_of(head, sizeof head), &nbytes, len));
	/*
	 * A shorter chunk must be a file of its own; in a frame, more bytes follow it (FORMAT.md
	 * 9.3).
	 */
	if (*len < CHUNK_HEAD && *len < st->room)
		return CORRUPT("stored chunk is too short", *len);
	return *len <= st->room ? 0 : CORRUPT("chunk ends past its room", *len);
}

int stored_check(const struct stored *st, uint32_t len)
{
	uint64_t hash;
	TRY(io_hash(st->io, st->at, len, &hash));
	return chunk_sum_whole(hash) == st->sum ? 0 : CORRUPT("checksum of a chunk", st->at);
}
