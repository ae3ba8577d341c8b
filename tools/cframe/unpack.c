/* Writes the content of a frame, or of another file, to a new file. Holes stay holes. */
#include "unpack.h"
#include "crew.h"
#include "pieces.h"
#include "progress.h"
#include "workbench.h"

#include "base/fd.h"
#include "frame/view_npy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What one row of chunks holds of an array: consecutive whole rows. Short pieces of rows, as blocks
 * hold them, are assembled here, since a call for each piece would take minutes.
 */
struct band {
	struct buf b;    /* empty: pieces go straight to the file    */
	uint64_t at;     /* of its first byte in the array           */
	uint32_t chunks; /* how many chunks it comes from            */
	atomic_bool any; /* it has bytes                             */
};

struct unpack {
	struct frame *f;
	struct pool *pool;
	const struct npy *npy; /* NULL: its bytes as they are */
	struct band band;
	int out;
	bool salvage;               /* damage is not a failure */
	atomic_uint_least64_t done; /* decoded bytes */
	atomic_uint_least64_t lost; /* damaged ones  */
	atomic_bool any;            /* some bytes were not lost */
	atomic_bool unsupported;    /* some of the lost ones are of an unknown kind */
};

static int place_run(struct unpack *u, uint64_t at, struct view v)
{
	struct band *band = &u->band;
	if (!band->b.n)
		return fd_pwrite(u->out, u->npy->head.n + at, v);
	memcpy(band->b.p + (at - band->at), v.p, v.n);
	band->any = true;
	return 0;
}

/* Writes bytes of chunk n, from `lo` on, to where they belong. */
static int place(void *arg, uint32_t n, uint32_t lo, struct view v)
{
	struct unpack *u = arg;
	u->any = true;
	if (!u->npy)
		return fd_pwrite(u->out, frame_chunk_span(u->f, n).start + lo, v);
	struct ndarray_runs r =
		ndarray_runs_of(&u->npy->array, n, lo, lo + (uint32_t)v.n);
	struct ndarray_run run;
	while (ndarray_runs_next(&r, &run))
		TRY(place_run(u, run.at, view_part(v, run.in_chunk - lo, run.len)));
	return 0;
}

/*
 * A new file and a band have zeros where nothing is placed. Padding in the chunks at the array's
 * edges does not count as lost.
 */
static void lose(void *arg, uint32_t n, uint32_t lo, uint32_t len, int rc)
{
	struct unpack *u = arg;
	u->unsupported |= rc == -ENOTSUP;
	if (!u->npy) {
		u->lost += len;
		return;
	}
	struct ndarray_runs r = ndarray_runs_of(&u->npy->array, n, lo, lo + len);
	struct ndarray_run run;
	while (ndarray_runs_next(&r, &run))
		u->lost += run.len;
}

static int unpack_chunk(void *arg, uint32_t n)
{
	struct unpack *u = arg;
	if (frame_is_hole(u->f, n))
		return 0;
	struct workbench *bench = workbench_get();
	if (!bench)
		return -ENOMEM;
	struct pieces p = {.f = u->f,
			   .s = bench->s,
			   .b = bench->b,
			   .take = place,
			   .lose = u->salvage ? lose : NULL,
			   .arg = u};
	int rc = pieces_of_chunk(&p, n);
	bench->b = p.b;
	uint32_t len = frame_chunk_span(u->f, n).len;
	if (rc == 0) {
		progress_bytes(len, 0);
		u->done += len;
	}
	return rc;
}

static int unpack_chunks(struct unpack *u, uint32_t first, uint32_t n)
{
	return crew_each(u->pool, first, n, unpack_chunk, u);
}

#define SHORT_RUN (32u << 10)
#define BAND_MOST (64u << 20)

/* Held while there is a band: one at a time is enough for all workers, which share its chunks. */
static pthread_mutex_t band_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t band_len(const struct ndarray *a)
{
	return min_u64(a->chunkshape[0], a->shape[0]) * (a->nbytes / a->shape[0]);
}

/* True: a band pays off, and is not too large. */
static bool wants_band(const struct ndarray *a)
{
	return a->ndim && ndarray_locate(a, 0).len < SHORT_RUN && band_len(a) <= BAND_MOST;
}

static int make_band(const struct ndarray *a, struct band *band)
{
	uint64_t len = band_len(a);
	band->chunks = (uint32_t)(a->nchunks / ceil_div(a->shape[0], a->chunkshape[0]));
	TRY(buf_reserve(&band->b, len));
	band->b.n = len;
	return 0;
}

static int unpack_bands(struct unpack *u)
{
	struct band *band = &u->band;
	uint64_t nbytes = u->npy->array.nbytes;
	TRY(make_band(&u->npy->array, band));
	for (uint32_t n = 0; n < frame_nchunks(u->f); n += band->chunks) {
		uint64_t len = min_u64(band->b.n, nbytes - band->at);
		memset(band->b.p, 0, len);
		band->any = false;
		TRY(unpack_chunks(u, n, band->chunks));
		if (band->any) /* else it stays a hole */
			TRY(fd_pwrite(u->out, u->npy->head.n + band->at,
				      view_of(band->b.p, len)));
		band->at += len;
	}
	return 0;
}

static int unpack(struct unpack *u, uint64_t size)
{
	if (ftruncate(u->out, (off_t)size) < 0)
		return -errno;
	if (u->npy)
		TRY(fd_pwrite(u->out, 0, u->npy->head));
	if (u->npy && !u->npy->array.nbytes)
		return 0;
	if (!u->npy || !wants_band(&u->npy->array))
		return unpack_chunks(u, 0, frame_nchunks(u->f));
	pthread_mutex_lock(&band_lock);
	int rc = unpack_bands(u);
	buf_free(&u->band.b);
	pthread_mutex_unlock(&band_lock);
	return rc;
}

int unpack_frame(struct frame *f, bool array, struct pool *pool, int out, uint64_t *lost)
{
	struct unpack u = {.f = f, .pool = pool, .out = out, .salvage = lost};
	struct npy npy = {0};
	int rc = array ? npy_init(&npy, f) : 0;

	u.npy = array ? &npy : NULL;
	if (rc >= 0)
		rc = unpack(&u, array ? npy.size : frame_size(f));
	if (rc >= 0 && u.unsupported && !u.any) /* then it is probably not damage */
		rc = UNSUPPORTED("any chunk of the file", frame_nchunks(f));
	npy_deinit(&npy);
	if (rc < 0)
		progress_take_back(u.done);
	else if (lost)
		*lost = u.lost;
	return rc;
}

/* Bytes [at, end) of a file. */
static int copy(int in, int out, uint64_t at, uint64_t end, uint64_t *done)
{
	struct buf b = {0};
	int rc = buf_reserve_fresh(&b, PIECE);
	while (rc == 0 && at < end) {
		struct span part = {b.p, min_u64(PIECE, end - at)};
		rc = fd_pread(in, at, part);
		if (rc == 0)
			rc = fd_pwrite(out, at, span_view(part));
		progress_bytes(part.n, 0);
		*done += part.n;
		at += part.n;
	}
	buf_free(&b);
	return rc;
}

static int copy_data(int in, int out, uint64_t *done)
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
		TRY(copy(in, out, (uint64_t)at, (uint64_t)end, done));
		at = end;
	}
	return at < 0 && errno != ENXIO ? -errno : 0;
}

int unpack_plain(int in, int out)
{
	uint64_t done = 0;
	int rc = copy_data(in, out, &done);
	if (rc < 0)
		progress_take_back(done);
	return rc;
}
