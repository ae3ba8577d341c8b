/* Writes the content of a frame, or of another file, to a new file. Holes stay holes. */
#include "unpack.h"
#include "progress.h"

#include "base/fd.h"
#include "frame/view_npy.h"

#include <sys/stat.h>
#include <unistd.h>

#define STEP (4u << 20) /* bytes that are held at once, as far as blocks allow */

struct unpack {
	struct frame *f;
	const struct npy *npy; /* NULL: its bytes as they are */
	struct scratch *s;
	struct buf b;
	int out;
};

/* Writes bytes of chunk n, from `lo` on, to where they belong. */
static int place(struct unpack *u, uint32_t n, uint32_t lo, struct view v)
{
	if (!u->npy)
		return fd_pwrite(u->out, frame_chunk_span(u->f, n).start + lo, v);
	struct ndarray_runs r =
		ndarray_runs_of(&u->npy->array, n, lo, lo + (uint32_t)v.n);
	struct ndarray_run run;
	while (ndarray_runs_next(&r, &run))
		TRY(fd_pwrite(u->out, u->npy->head_len + run.at,
			      view_part(v, run.in_chunk - lo, run.len)));
	return 0;
}

/* Unpacks a chunk that needs no decoder, however large its blocks are. */
static int unpack_within(struct unpack *u, uint32_t n, const struct chunk *c)
{
	for (uint32_t at = 0; at < c->nbytes; at += STEP) {
		uint32_t len = (uint32_t)min_u64(STEP, c->nbytes - at);
		TRY(buf_reserve_fresh(&u->b, len));
		TRY(frame_read_within(u->f, n, c, at, span_of(u->b.p, len)));
		TRY(place(u, n, at, view_of(u->b.p, len)));
	}
	return 0;
}

/* As many blocks as fit into STEP, but at least one. */
static struct run next_blocks(const struct chunk *c, uint32_t first)
{
	struct run run = {first, 1};
	while (run.first + run.n < c->nblocks &&
	       chunk_run_bytes(c, (struct run){first, run.n + 1}) <= STEP)
		run.n++;
	return run;
}

static int unpack_blocks(struct unpack *u, uint32_t n, const struct chunk *c)
{
	/* A checksum of the whole chunk is verified only by reading all of it at once. */
	if (next_blocks(c, 0).n < c->nblocks)
		TRY(frame_check_chunk(u->f, n, c));
	for (struct run run = {0, 0}; run.first + run.n < c->nblocks;) {
		run = next_blocks(c, run.first + run.n);
		uint32_t len = chunk_run_bytes(c, run);
		TRY(buf_reserve_fresh(&u->b, len));
		TRY(frame_read_blocks(u->f, n, c, run, u->s, span_of(u->b.p, len)));
		TRY(place(u, n, chunk_block_bytes(c, run.first).off, view_of(u->b.p, len)));
	}
	return 0;
}

static int unpack_chunk(struct unpack *u, uint32_t n)
{
	struct chunk c = {0};

	if (frame_is_hole(u->f, n))
		return 0;
	int rc = frame_load_chunk(u->f, n, u->s, &c);
	if (rc == 0 && c.nbytes && frame_can_read_within(u->f, n, &c))
		rc = unpack_within(u, n, &c);
	else if (rc == 0 && c.nbytes)
		rc = unpack_blocks(u, n, &c);
	if (rc == 0)
		progress_bytes(c.nbytes, 0);
	chunk_deinit(&c);
	return rc;
}

static int unpack(struct unpack *u, uint64_t size)
{
	if (ftruncate(u->out, (off_t)size) < 0)
		return -errno;
	if (u->npy)
		TRY(fd_pwrite(u->out, 0, view_of(u->npy->head, u->npy->head_len)));
	if (u->npy && !u->npy->array.nbytes)
		return 0;
	for (uint32_t n = 0; n < frame_nchunks(u->f); n++)
		TRY(unpack_chunk(u, n));
	return 0;
}

int unpack_frame(struct frame *f, bool array, struct scratch *s, int out)
{
	struct unpack u = {.f = f, .s = s, .out = out};
	struct npy *npy = array ? mem_zalloc(sizeof *npy) : NULL;
	int rc = !array ? 0 : npy ? npy_init(npy, f) : -ENOMEM;

	u.npy = npy;
	if (rc >= 0)
		rc = unpack(&u, array ? npy->size : frame_size(f));
	buf_free(&u.b);
	mem_free(npy);
	return rc;
}

/* Bytes [at, end) of a file. */
static int copy(int in, int out, uint64_t at, uint64_t end)
{
	struct buf b = {0};
	int rc = buf_reserve_fresh(&b, STEP);
	while (rc == 0 && at < end) {
		struct span part = {b.p, min_u64(STEP, end - at)};
		rc = fd_pread(in, at, part);
		if (rc == 0)
			rc = fd_pwrite(out, at, span_view(part));
		progress_bytes(part.n, 0);
		at += part.n;
	}
	buf_free(&b);
	return rc;
}

int unpack_plain(int in, int out)
{
	struct stat st;
	off_t at = 0;

	if (fstat(in, &st) < 0 || ftruncate(out, st.st_size) < 0)
		return -errno;
	while (at < st.st_size && (at = lseek(in, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(in, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		if (end > st.st_size)
			end = st.st_size;
		TRY(copy(in, out, (uint64_t)at, (uint64_t)end));
		at = end;
	}
	return at < 0 && errno != ENXIO ? -errno : 0;
}
