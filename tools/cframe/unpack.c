/* Writes the content of a frame, or of another file, to a new file. Holes stay holes. */
#include "unpack.h"
#include "pieces.h"
#include "progress.h"

#include "base/fd.h"
#include "frame/view_npy.h"

#include <sys/stat.h>
#include <unistd.h>

struct unpack {
	struct pieces p;
	const struct npy *npy; /* NULL: its bytes as they are */
	int out;
};

/* Writes bytes of chunk n, from `lo` on, to where they belong. */
static int place(void *arg, uint32_t n, uint32_t lo, struct view v)
{
	struct unpack *u = arg;
	if (!u->npy)
		return fd_pwrite(u->out, frame_chunk_span(u->p.f, n).start + lo, v);
	struct ndarray_runs r =
		ndarray_runs_of(&u->npy->array, n, lo, lo + (uint32_t)v.n);
	struct ndarray_run run;
	while (ndarray_runs_next(&r, &run))
		TRY(fd_pwrite(u->out, u->npy->head_len + run.at,
			      view_part(v, run.in_chunk - lo, run.len)));
	return 0;
}

static int unpack_chunk(struct unpack *u, uint32_t n)
{
	if (frame_is_hole(u->p.f, n))
		return 0;
	int rc = pieces_of_chunk(&u->p, n);
	if (rc == 0)
		progress_bytes(frame_chunk_span(u->p.f, n).len, 0);
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
	for (uint32_t n = 0; n < frame_nchunks(u->p.f); n++)
		TRY(unpack_chunk(u, n));
	return 0;
}

int unpack_frame(struct frame *f, bool array, struct scratch *s, int out)
{
	struct unpack u = {.p = {.f = f, .s = s, .take = place, .arg = &u}, .out = out};
	struct npy *npy = array ? mem_zalloc(sizeof *npy) : NULL;
	int rc = !array ? 0 : npy ? npy_init(npy, f) : -ENOMEM;

	u.npy = npy;
	if (rc >= 0)
		rc = unpack(&u, array ? npy->size : frame_size(f));
	buf_free(&u.p.b);
	mem_free(npy);
	return rc;
}

/* Bytes [at, end) of a file. */
static int copy(int in, int out, uint64_t at, uint64_t end)
{
	struct buf b = {0};
	int rc = buf_reserve_fresh(&b, PIECE);
	while (rc == 0 && at < end) {
		struct span part = {b.p, min_u64(PIECE, end - at)};
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
