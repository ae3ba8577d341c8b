/*
 * Reading: finds out where a chunk is stored, and which of its bytes are needed. Everything here
 * may run in many threads at once.
 */
#include "frame/frame_impl.h"
#include "frame/meters.h"

#include <assert.h>

/*
 * The latest end of a chunk at `at`. A chunk of the root on disk ends within that root's chunk
 * area. The length of a pending chunk is known and must be used: the bytes after it may be lent,
 * and the file may not reach that far yet.
 */
static uint64_t stored_end(const struct frame *f, uint64_t at)
{
	uint64_t area = f->info.header_len + f->info.cbytes;
	uint64_t busy = f->state == FRAME_CLEAN ? 0 : space_busy_length(&f->space, at);

	if (busy)
		return at + busy;
	return f->state == FRAME_CLEAN || at < area ? area : f->space.end;
}

int frame_stored(const struct frame *f, uint32_t n, struct stored *st)
{
	uint64_t entry = numbers_get(&f->index, n);
	assert(entry_is_stored(entry));
	*st = (struct stored){.io = f->copy ? f->copy : f->io, .at = f->info.header_len + entry,
			     .item = f->type_size,
			     .sum = frame_sum(f, n)};
	if (f->info.sparse) {
		TRY(sframe_open_chunk(f->dirfd, entry, &st->io));
		st->at = 0;
		int rc = io_size(st->io, &st->room);
		if (rc < 0)
			io_close(st->io);
		return rc;
	}
	uint64_t end = stored_end(f, st->at);
	if (st->at >= end)
		return CORRUPT("chunk starts after the chunk area", st->at);
	st->room = end - st->at;
	return 0;
}

void frame_stored_done(const struct frame *f, struct stored *st)
{
	if (f->info.sparse)
		io_close(st->io);
}

/* frame_stored for a chunk that was loaded before, all of which must be there. */
static int stored_whole(struct frame_chunk at, struct stored *st)
{
	TRY(frame_stored(at.f, at.n, st));
	if (at.c->cbytes <= st->room)
		return 0;
	frame_stored_done(at.f, st);
	return CORRUPT("chunk ends past its room", at.c->cbytes);
}

static bool is_stored(struct frame_chunk at)
{
	return frame_slot(at.f, at.n) == SLOT_STORED;
}

static uint64_t sum_of(struct frame_chunk at)
{
	return frame_sum(at.f, at.n);
}

/*
 * Makes the chunk that a special slot stands for, just a header. Uninitialised values read as
 * zeros.
 */
static int load_special(const struct frame *f, uint32_t n, struct chunk *c)
{
	uint8_t bytes[CHUNK_HEAD];
	uint32_t len = frame_chunk_span(f, n).len, block = f->info.block_size;
	struct chunk_head h = {
		.kind = CHUNK_ZEROS, .typesize = 1, .nbytes = len, .cbytes = CHUNK_HEAD};
	if (frame_slot(f, n) == SLOT_NAN) {
		h.kind = CHUNK_NAN;
		h.typesize = f->type_size <= UINT8_MAX ? f->type_size : 1;
	}
	if (block == 0)
		block = HOLE_BLOCK;
	if (block > CHUNK_MAX_BLOCKSIZE)
		block = CHUNK_MAX_BLOCKSIZE;
	block = block > h.typesize ? block - block % h.typesize : h.typesize;
	h.blocksize = block < len ? block : len;
	chunk_head_put(bytes, &h);
	int rc = chunk_parse(c, view_of(bytes, sizeof bytes), sizeof bytes, f->type_size);
	return rc > 0 ? CORRUPT("special chunk", rc) : rc;
}

/* The longest guess. Longer heads are read only after their memory was granted (scratch_ask). */
#define GUESS_MOST (256u << 10)

/*
 * Guesses the length of the head of a chunk of `len` decoded bytes, including checksums of blocks:
 * assumes the block size of the chunk loaded last. Too short a guess costs a second read.
 */
static uint32_t head_guess(const struct frame *f, uint32_t len)
{
	uint32_t block = f->hint;
	if (block == 0 || block > len)
		block = len;
	if (block == 0)
		return CHUNK_HEAD;
	return (uint32_t)min_u64(chunk_head_guess((uint32_t)ceil_div(len, block)), GUESS_MOST);
}

static int judge_chunk(const struct frame *f, uint32_t n, const struct chunk *c,
		       const struct stored *st)
{
	if (c->nbytes != frame_stored_len(f, n))
		return CORRUPT("chunk holds another number of bytes than its place", c->nbytes);
	if (!f->info.sparse && c->cbytes < CHUNK_HEAD)
		return CORRUPT("stored chunk is too short", c->cbytes);
	if (f->info.sparse && c->cbytes != st->room)
		return CORRUPT("chunk is shorter than its file", c->cbytes);
	return 0;
}

int frame_load_chunk(struct frame *f, uint32_t n, struct scratch *s, struct chunk *c)
{
	struct stored st;
	if (frame_slot(f, n) != SLOT_STORED)
		return load_special(f, n, c);
	TRY(frame_stored(f, n, &st));
	int rc = stored_load(&st, head_guess(f, frame_stored_len(f, n)), s, c);
	if (rc == 0)
		rc = judge_chunk(f, n, c, &st);
	frame_stored_done(f, &st);
	if (rc == 0 && !c->is_vl && f->hint != c->blocksize)
		f->hint = c->blocksize;
	return rc;
}

/* A chunk of up to this many stored bytes is read as a whole, even for a single block. */
#define WHOLE_MOST (32u << 10)

/*
 * For a chunk whose only checksum is of all its bytes: reads all of them at once and verifies them.
 */
static int read_verified(const struct stored *st, const struct chunk *c, struct run run,
			 struct scratch *s, struct span dst)
{
	struct span all;
	TRY(scratch_ask(s, c->cbytes + chunk_work(c, run, BLOCK_DECODED)));
	TRY(scratch_stage(s, c->cbytes, &all));
	TRY(io_pread(st->io, st->at, all));
	TRY(chunk_sum_check(st->sum, span_view(all)));
	struct extent e = chunk_extent(c, run);
	return chunk_decode(c, s, run, view_part(span_view(all), e.off, e.len), dst);
}

int frame_check_blocks(struct frame_chunk at, struct scratch *s)
{
	struct stored st;
	assert(at.c->sums);
	TRY(stored_whole(at, &st));
	int rc = stored_check_blocks(&st, at.c, s);
	frame_stored_done(at.f, &st);
	return rc;
}

int frame_check_chunk(struct frame_chunk at)
{
	struct stored st;
	if (!is_stored(at) || !sum_of(at) || at.c->sums)
		return 0;
	TRY(stored_whole(at, &st));
	int rc = stored_check(&st, at.c->cbytes);
	frame_stored_done(at.f, &st);
	return rc;
}

/*
 * True: use read_verified: only the chunk as a whole has a checksum, and reading all of it is
 * cheap.
 */
static bool wants_all(struct frame_chunk at, struct run run)
{
	const struct chunk *c = at.c;
	return !c->sums && (run.n == c->nblocks || c->cbytes <= WHOLE_MOST) && sum_of(at);
}

int frame_read_blocks(struct frame_chunk at, struct run run, struct scratch *s, struct span dst)
{
	struct stored st;
	if (!is_stored(at)) /* nothing is read */
		return chunk_decode(at.c, s, run, view_of(NULL, 0), dst);
	uint64_t start = meter_now();
	TRY(stored_whole(at, &st));
	int rc = wants_all(at, run) ? read_verified(&st, at.c, run, s, dst)
				    : stored_read(&st, at.c, run, s, dst);
	frame_stored_done(at.f, &st);
	meter_time(METER_DECODE, start);
	meter_add(METER_BLOCKS_DECODED, run.n);
	meter_add(METER_BYTES_DECODED, dst.n);
	return rc;
}

bool frame_can_pack(struct frame_chunk at)
{
	return is_stored(at) && !wants_all(at, (struct run){0, 1}) && chunk_can_pack(at.c);
}

uint64_t frame_run_memory(struct frame_chunk at, struct run run, enum block_form form)
{
	uint64_t dst = chunk_run_bytes(at.c, run);
	if (!is_stored(at))
		return dst;
	if (form == BLOCK_DECODED && wants_all(at, run))
		return dst + at.c->cbytes + chunk_work(at.c, run, form);
	return dst + stored_memory(at.c, run, form);
}

bool frame_can_read_within(struct frame_chunk at)
{
	return at.c->kind != CHUNK_REGULAR && (!is_stored(at) || !sum_of(at));
}

int frame_read_within(struct frame_chunk at, uint32_t lo, struct span dst)
{
	const struct chunk *c = at.c;
	struct stored st;
	assert(frame_can_read_within(at) && lo <= c->nbytes && dst.n <= c->nbytes - lo);
	if (c->kind != CHUNK_STORED) {
		chunk_fill(c, lo, dst);
		return 0;
	}
	TRY(stored_whole(at, &st));
	int rc = io_pread(st.io, st.at + c->head_len + lo, dst);
	frame_stored_done(at.f, &st);
	return rc;
}

int frame_read_packed(struct frame_chunk at, uint32_t block, struct scratch *s, struct span dst)
{
	struct stored st;
	uint64_t start = meter_now();

	assert(frame_can_pack(at));
	TRY(stored_whole(at, &st));
	int rc = stored_read_packed(&st, at.c, block, s, dst);
	frame_stored_done(at.f, &st);
	meter_time(METER_DECODE, start);
	meter_add(METER_BLOCKS_DECODED, 1);
	meter_add(METER_BYTES_DECODED, dst.n);
	return rc;
}

int frame_read_part(struct frame_chunk at, struct chunk_part part, struct scratch *s,
		    struct span dst)
{
	struct stored st;
	uint64_t start = meter_now();

	TRY(stored_whole(at, &st));
	int rc = stored_read_part(&st, at.c, part, s, dst);
	frame_stored_done(at.f, &st);
	meter_time(METER_DECODE, start);
	if (rc == 0) {
		meter_add(METER_PARTS_DECODED, 1);
		meter_add(METER_BYTES_DECODED, dst.n);
	}
	return rc;
}

int frame_read_chunk(struct frame *f, uint32_t n, struct scratch *s, struct span dst)
{
	struct chunk c = {0};
	assert(dst.n == frame_chunk_span(f, n).len);
	int rc = frame_load_chunk(f, n, s, &c);
	if (rc == 0 && c.nblocks && c.nbytes)
		rc = frame_read_blocks((struct frame_chunk){f, n, &c}, (struct run){0, c.nblocks},
				       s, dst);
	chunk_deinit(&c);
	return rc;
}

/* Reads bytes lo .. lo + dst.n - 1 of the chunk, which are a part of one block. */
static int read_part(struct frame_chunk at, uint32_t lo, struct scratch *s, struct span dst)
{
	uint32_t b = chunk_block_at(at.c, lo);
	struct extent e = chunk_block_bytes(at.c, b);
	struct buf whole = {0};
	TRY(buf_reserve(&whole, e.len));
	int rc = frame_read_blocks(at, (struct run){b, 1}, s, span_of(whole.p, e.len));
	if (rc == 0)
		memcpy(dst.p, whole.p + (lo - e.off), dst.n);
	buf_free(&whole);
	return rc;
}

/* Decodes whole blocks into place; partial ones at both ends go through a buffer. */
static int read_loaded(struct frame_chunk at, uint32_t lo, struct scratch *s, struct span dst)
{
	const struct chunk *c = at.c;
	uint32_t hi = lo + (uint32_t)dst.n;
	while (lo < hi) {
		uint32_t first = chunk_block_at(c, lo), last = chunk_block_at(c, hi - 1);
		struct extent a = chunk_block_bytes(c, first), z = chunk_block_bytes(c, last);
		uint32_t len;
		if (lo != a.off || a.len > hi - lo) {
			len = (uint32_t)min_u64(hi, a.off + a.len) - lo;
			TRY(read_part(at, lo, s, span_of(dst.p, len)));
		} else {
			struct run run = {first, last - first + (hi == z.off + z.len)};
			len = chunk_run_bytes(c, run);
			TRY(frame_read_blocks(at, run, s, span_of(dst.p, len)));
		}
		lo += len;
		dst = span_from(dst, len);
	}
	return 0;
}

int frame_read(struct frame *f, uint64_t at, struct scratch *s, struct span dst)
{
	assert(at <= f->nbytes && dst.n <= f->nbytes - at);
	while (dst.n) {
		uint32_t n = frame_chunk_at(f, at);
		struct frame_span sp = frame_chunk_span(f, n);
		uint32_t lo = (uint32_t)(at - sp.start);
		uint32_t len = (uint32_t)min_u64(sp.len - lo, dst.n);
		struct chunk c = {0};
		int rc = frame_load_chunk(f, n, s, &c);
		if (rc == 0)
			rc = read_loaded((struct frame_chunk){f, n, &c}, lo, s,
					 span_of(dst.p, len));
		chunk_deinit(&c);
		TRY(rc);
		at += len;
		dst = span_from(dst, len);
	}
	return 0;
}

static int read_raw(const struct stored *st, struct buf *cchunk)
{
	uint32_t len;
	TRY(stored_length(st, &len));
	TRY(buf_reserve_fresh(cchunk, len));
	TRY(io_pread(st->io, st->at, span_of(cchunk->p, len)));
	TRY(chunk_sum_check(st->sum, view_of(cchunk->p, len)));
	cchunk->n = len;
	return 0;
}

int frame_read_raw(struct frame *f, uint32_t n, struct buf *cchunk)
{
	struct stored st;
	cchunk->n = 0;
	TRY(frame_stored(f, n, &st));
	int rc = read_raw(&st, cchunk);
	frame_stored_done(f, &st);
	return rc;
}

/* True: the chunk decodes to the same bytes in any frame, for any reader. */
static bool stands_alone(const struct chunk *c)
{
	return c->common && !filters_need_item(c->filter, c->meta);
}

int frame_read_copy(struct frame *f, uint32_t n, uint64_t most, struct scratch *s,
		    struct buf *cchunk)
{
	struct chunk c = {0};
	cchunk->n = 0;
	if (frame_slot(f, n) == SLOT_NAN)
		return UNSUPPORTED("NaN chunk as bytes", n);
	if (frame_slot(f, n) != SLOT_STORED)
		return 0;
	uint64_t before = scratch_bound(s, most);
	int rc = frame_load_chunk(f, n, s, &c);
	if (rc == 0 && !stands_alone(&c))
		rc = UNSUPPORTED("chunk for this frame, or this reader, alone", n);
	if (rc == 0)
		rc = scratch_ask(s, c.cbytes);
	scratch_bound(s, before);
	chunk_deinit(&c);
	return rc < 0 ? rc : frame_read_raw(f, n, cchunk);
}
