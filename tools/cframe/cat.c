/*
 * Writes the bytes out as they are decoded. Another program may write to the file meanwhile: then
 * it is read again, and what has been output is compared, by its hash, with what the file contains
 * now.
 */
#include "args.h"
#include "cframe.h"
#include "open.h"
#include "pieces.h"
#include "say.h"
#include "steady.h"

#include "base/fd.h"
#include "base/sum.h"
#include "frame/stored.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct cat {
	const char *file;
	struct scratch *scratch;
	uint64_t out; /* how many bytes have been written out               */
	uint64_t sum; /* their hash                                         */
	bool ended;   /* they were the whole content: no more follow        */
	struct XXH3_state_s *state; /* of the bytes of this pass */
	uint64_t at;                /* how many of them so far   */
	uint64_t size;              /* how many there will be    */
	int rc;        /* the error                                         */
	bool is_chunk; /* it is not a frame, and was read as a single chunk */
	bool changed;  /* the file no longer begins with what was output    */
	bool full;     /* standard output failed, with rc                   */
};

/* Writes all of it to standard output. */
static int write_out(struct view v)
{
	unsigned interrupted = 0;

	while (v.n) {
		ssize_t n = write(STDOUT_FILENO, v.p, v.n);
		if (n < 0)
			TRY(fd_judge(&interrupted));
		else
			v = view_from(v, (size_t)n);
	}
	return 0;
}

static int put(struct cat *c, struct view v)
{
	struct view known = {v.p, min_u64(v.n, c->out - c->at)};
	struct view fresh = view_from(v, known.n);
	sum64_add(c->state, known);
	c->at += known.n;
	if (known.n && c->at == c->out && sum64_so_far(c->state) != c->sum) {
		c->changed = true;
		return -ESTALE;
	}
	if (!fresh.n)
		return 0;
	int rc = write_out(fresh);
	if (rc < 0) {
		c->full = true;
		return rc;
	}
	sum64_add(c->state, fresh);
	c->at += fresh.n;
	c->out = c->at;
	c->sum = sum64_so_far(c->state);
	return 0;
}

static int put_piece(void *arg, uint32_t n, uint32_t lo, struct view v)
{
	struct cat *c = arg;
	return put(c, view_part(v, 0, min_u64(v.n, c->size - c->at)));
}

static bool is_large(const struct frame *f, uint32_t n)
{
	return frame_chunk_span(f, n).len > PIECE;
}

/* The end of the run of small chunks that begins at `at`, at most PIECE bytes on. */
static uint64_t small_end(const struct frame *f, uint64_t at, uint64_t size)
{
	uint64_t end = min_u64(at + PIECE, size);
	for (uint32_t n = frame_chunk_at(f, at); frame_chunk_span(f, n).start < end; n++)
		if (is_large(f, n))
			return frame_chunk_span(f, n).start;
		else if (n + 1 == frame_nchunks(f))
			break;
	return end;
}

/* Large chunks are read one by one: each separate read might decode a block again. */
static int cat_frame(struct cat *c, struct frame *f)
{
	struct pieces p = {.f = f, .s = c->scratch, .take = put_piece, .arg = c};
	int rc = 0;
	c->size = c->ended ? min_u64(c->out, frame_size(f)) : frame_size(f);
	while (rc == 0 && c->at < c->size) {
		uint32_t n = frame_chunk_at(f, c->at);
		if (is_large(f, n)) {
			rc = pieces_of_chunk(&p, n);
			continue;
		}
		size_t len = small_end(f, c->at, c->size) - c->at;
		rc = buf_reserve_fresh(&p.b, len);
		if (rc == 0)
			rc = frame_read(f, c->at, c->scratch, span_of(p.b.p, len));
		if (rc == 0)
			rc = put(c, view_of(p.b.p, len));
	}
	buf_free(&p.b);
	return rc;
}

static int cat_blocks(struct cat *c, const struct stored *st, const struct chunk *chunk)
{
	struct buf b = {0};
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && chunk->nbytes && i < chunk->nblocks; i++) {
		struct run one = {i, 1};
		uint32_t n = chunk_run_bytes(chunk, one);
		rc = buf_reserve_fresh(&b, n);
		if (rc == 0)
			rc = stored_read(st, chunk, one, c->scratch, span_of(b.p, n));
		if (rc == 0)
			rc = put(c, view_of(b.p, n));
	}
	buf_free(&b);
	return rc;
}

static int cat_chunk(struct cat *c, struct io *io)
{
	struct stored st = {.io = io};
	struct chunk chunk = {0};
	TRY(io_size(io, &st.room));
	int rc = stored_load(&st, 0, c->scratch, &chunk);
	if (rc == 0)
		rc = cat_blocks(c, &st, &chunk);
	chunk_deinit(&chunk);
	return rc;
}

static int cat_all(struct cat *c, struct frame *f, struct io *io)
{
	c->at = 0;
	c->state = sum64_begin();
	if (!c->state)
		return -ENOMEM;
	int rc = f ? cat_frame(c, f) : cat_chunk(c, io);
	(void)sum64_end(c->state);
	if (rc == 0 && c->at < c->out) {
		c->changed = true;
		rc = -ESTALE;
	}
	return rc;
}

static int pass(struct cat *c, bool *is_ours)
{
	struct frame *f;
	struct io *io;

	int rc = tool_open(AT_FDCWD, c->file, &f, &io);
	c->is_chunk = io;
	*is_ours = f && frame_is_ours(f);
	if (rc == 0)
		rc = cat_all(c, f, io);
	frame_close(f);
	io_close(io);
	return rc;
}

/*
 * In our frames checksums reveal damage. In those of other programs a chunk that was replaced
 * meanwhile may look sound: they are read again, unless the file did not change.
 */
static bool is_out(void *arg)
{
	struct cat *c = arg;
	struct stat before;
	bool is_ours, sure = c->ended;

	int held = open(c->file, O_PATH | O_CLOEXEC);
	bool known = held >= 0 && fstat(held, &before) == 0;
	c->rc = pass(c, &is_ours);
	sure |= is_ours || (known && is_untouched(held, &before));
	if (held >= 0)
		close(held);
	c->ended |= c->rc == 0;
	return c->changed || c->full || (c->rc == 0 && sure);
}

static int fail(const struct cat *c)
{
	if (c->changed) {
		tool_say("%s: was changed while it was being read", c->file);
		return 1;
	}
	if (c->full || !c->is_chunk)
		return tool_fail(c->full ? "standard output" : c->file, c->rc);
	return tool_no_chunk(c->file, c->rc);
}

int cat_main(int argc, char **argv)
{
	if (args_next(argc, argv, "", NULL) == ARGS_WRONG)
		return 1;
	if (argc - optind != 1)
		return tool_usage(argv[0]);
	struct cat c = {.file = argv[optind]};
	bool steady = true;
	c.rc = scratch_open(&c.scratch);
	if (c.rc == 0)
		steady = look_until_steady(AT_FDCWD, c.file, is_out, &c);
	scratch_close(c.scratch);
	if (!steady)
		return tool_busy(c.file);
	return c.rc < 0 ? fail(&c) : 0;
}
