/*
 * Commit: the changes in memory become a new root on disk. FORMAT.md 10.
 *
 *     header | chunks of old and new roots, garbage | new index | trailer
 *       |                                               ^
 *       +--- frame_len, cbytes: one write of 87 bytes --+
 *
 * Until that write the file is, to every reader, what it was. The bytes that the
 * old root refers to are not touched.
 *
 * A frame without data has its trailer right behind the header and nothing
 * else. In frames that we made the first trailer stays there unused, so that
 * truncation to nothing is one header write like every other commit. In those of others a
 * chunk or the index may lie there: it is moved away first, by a commit of its own.
 */
#include "codec/filter.h"
#include "frame/frame_impl.h"
#include "frame/header.h"
#include "frame/trailer.h"

#include <assert.h>

#define COPY_STEP (1u << 20)

static bool index_has(const struct index *ix, uint64_t entry)
{
	for (uint32_t p = 0; p < ix->npages; p++) {
		const struct index_page *pg = &ix->page[p];
		uint32_t n = (uint32_t)min_u64(INDEX_PAGE, ix->n - p * INDEX_PAGE);
		if (!pg->slot && pg->same == entry)
			return true;
		for (uint32_t i = 0; pg->slot && i < n; i++)
			if (pg->slot[i] == entry)
				return true;
	}
	return false;
}

/* True: chunks decode to other bytes when the header's item size changes. */
static bool hangs_on_type_size(const struct frame *f, const struct index *ix)
{
	const struct pipeline *p = &f->info.pipeline;
	for (int i = 0; i < FILTER_SLOTS; i++)
		if ((p->filter[i] == FILTER_BYTEDELTA || p->filter[i] == FILTER_BYTEDELTA_OLD) &&
		    p->meta[i] == 0)
			return true; /* 0 channels: as many as an item has bytes */
	return index_has(ix, ENTRY_NAN); /* the pattern is that of a float or a double */
}

/*
 * Python counts in items and cuts at chunks by items: a size that does not divide both
 * the data and the chunks would hide the tail or shift what follows.
 */
static uint32_t type_size_for(const struct frame *f, const struct index *ix, uint64_t nbytes)
{
	uint32_t size = f->type_size;
	if (nbytes % size == 0 && f->info.chunk_size % size == 0)
		return size;
	return hangs_on_type_size(f, ix) ? f->info.type_size : 1;
}

/* From here on the new root may be on disk, whatever comes back. */
static int write_header(struct frame *f, const struct header_root *root)
{
	header_set_root(f->head.p, root);
	int rc = io_pwrite(f->io, 0, view_of(f->head.p, HEADER_FIXED));
	space_root(&f->space);
	f->unsynced = f->changed = true;
	f->doubt = rc < 0;
	TRY(rc);
	f->info.frame_len = root->frame_len;
	f->info.nbytes = root->nbytes;
	f->info.cbytes = root->cbytes;
	f->info.type_size = root->type_size;
	return 0;
}

static int make_durable(struct frame *f)
{
	TRY(io_sync(f->io));
	f->unsynced = false;
	return 0;
}

/* Index and trailer, behind everything else. Nothing refers to them yet. */
static int write_index(struct frame *f, struct index *ix, uint64_t *at, struct buf *packed)
{
	TRY(index_encode(ix, packed));
	TRY(buf_append(packed, buf_view(&f->trailer)));
	TRY(space_take_end(&f->space, packed->n, at));
	int rc = io_pwrite(f->io, *at, buf_view(packed));
	if (rc < 0)
		space_give(&f->space, *at, packed->n);
	return rc;
}

static int commit_index(struct frame *f, struct index *ix, uint64_t nbytes, enum durability how)
{
	struct buf packed = {0};
	uint64_t at;
	int rc = write_index(f, ix, &at, &packed);
	uint64_t len = packed.n;
	buf_free(&packed);
	TRY(rc);
	if (how == COMMIT_SYNC) {
		rc = io_sync(f->io);
		if (rc < 0) {
			space_give(&f->space, at, len);
			return rc;
		}
	}
	struct header_root root = {
		.frame_len = at + len,
		.nbytes = nbytes,
		.cbytes = at - f->info.header_len,
		.type_size = type_size_for(f, ix, nbytes),
		.chunk_size = f->info.chunk_size,
	};
	space_put(&f->space, at, len);
	return write_header(f, &root);
}

static int copy_bytes(struct frame *f, uint64_t from, uint64_t to, uint64_t len)
{
	struct buf b = {0};
	int rc = buf_reserve(&b, min_u64(len, COPY_STEP));
	for (uint64_t done = 0; rc == 0 && done < len; done += COPY_STEP) {
		struct span part = {b.p, min_u64(len - done, COPY_STEP)};
		rc = io_pread(f->io, from + done, part);
		if (rc == 0)
			rc = io_pwrite(f->io, to + done, span_view(part));
	}
	buf_free(&b);
	return rc;
}

/* Copies the chunk of entry i to new space; *budget limits what overlapping chunks may cost. */
static int move_chunk(struct frame *f, struct index *ix, uint32_t i, uint64_t *budget)
{
	uint8_t head[CHUNK_HEAD_MIN];
	uint32_t nbytes, cbytes;
	uint64_t from = index_get(ix, i), base = f->info.header_len, to;
	TRY(io_pread(f->io, base + from, span_of(head, sizeof head)));
	TRY(chunk_sizes(view_of(head, sizeof head), &nbytes, &cbytes));
	if (cbytes > f->info.cbytes - from)
		return CORRUPT("chunk ends behind the chunk area", cbytes);
	if (cbytes > *budget)
		return UNSUPPORTED("chunks that overlap", from);
	*budget -= cbytes;
	TRY(space_take(&f->space, cbytes, &to));
	int rc = copy_bytes(f, base + from, to, cbytes);
	if (rc < 0) {
		space_give(&f->space, to, cbytes);
		return rc;
	}
	space_put(&f->space, to, cbytes);
	return index_set(ix, i, to - base) ? 0 : -ENOMEM;
}

static int move_front(struct frame *f, struct index *ix)
{
	uint64_t front = f->trailer.n, budget = f->info.cbytes;
	bool busy = f->info.cbytes < front; /* by the index itself */
	for (uint32_t i = 0; i < ix->n; i++) {
		uint64_t entry = index_get(ix, i);
		if ((entry & ENTRY_SPECIAL) || entry >= front)
			continue;
		TRY(move_chunk(f, ix, i, &budget));
		busy = true;
	}
	if (!busy)
		return 0;
	TRY(commit_index(f, ix, f->info.nbytes, COMMIT_SYNC));
	return make_durable(f);
}

/* The same data as the root on disk has, but none of it where the trailer of an empty frame goes. */
static int vacate_front(struct frame *f)
{
	struct index ix = {0};
	struct scratch *s;
	TRY(scratch_open(&s));
	int rc = frame_load_index(f, &ix, s);
	scratch_close(s);
	if (rc == 0)
		rc = move_front(f, &ix);
	for (uint32_t i = 0; rc < 0 && i < ix.n; i++)
		if (!(index_get(&ix, i) & ENTRY_SPECIAL))
			space_drop(&f->space, f->info.header_len + index_get(&ix, i));
	index_deinit(&ix);
	return rc;
}

/* Puts the trailer behind the header, where no root that may be on disk refers to anything. */
static int write_front(struct frame *f)
{
	uint64_t at = f->info.header_len;
	struct buf there = {0};
	int rc = buf_reserve(&there, f->trailer.n);
	if (rc == 0)
		rc = io_pread(f->io, at, span_of(there.p, f->trailer.n));
	bool same = rc == 0 && memcmp(there.p, f->trailer.p, f->trailer.n) == 0;
	buf_free(&there);
	if (rc < 0 || same)
		return rc;
	if (f->unsynced)
		TRY(make_durable(f));
	return io_pwrite(f->io, at, buf_view(&f->trailer));
}

static int commit_empty(struct frame *f, enum durability how)
{
	if (f->info.nbytes) {
		TRY(vacate_front(f));
		TRY(write_front(f));
		if (how == COMMIT_SYNC)
			TRY(io_sync(f->io));
	}
	struct header_root root = {
		.frame_len = f->info.header_len + f->trailer.n,
		.type_size = type_size_for(f, &f->index, 0),
		.chunk_size = f->info.chunk_size,
	};
	return write_header(f, &root);
}

/*
 * Bytes behind a root that is durable are nobody's. Failure to cut them off
 * costs space and nothing else.
 */
static void cut_tail(struct frame *f)
{
	if (!f->changed || f->space.high <= f->info.frame_len || f->space.nlent)
		return;
	if (io_truncate(f->io, f->info.frame_len) == 0)
		space_cut(&f->space, f->info.frame_len);
}

static void commit_check(const struct frame *f)
{
	assert(f->state == FRAME_DIRTY);
	assert(f->writable);
	assert(f->trailer.n == f->info.trailer_len && f->head.n == f->info.header_len);
	/* frame_resize: the short last chunk is the caller's to rewrite before this */
	assert(f->stale == FRAME_NO_CHUNK);
}

int frame_commit(struct frame *f, enum durability how)
{
	if (f->state == FRAME_BROKEN)
		return f->error;
	if (f->state == FRAME_DIRTY) {
		commit_check(f);
		f->state = FRAME_COMMITTING;
		int rc = f->nbytes ? commit_index(f, &f->index, f->nbytes, how)
				   : commit_empty(f, how);
		f->state = rc < 0 ? FRAME_DIRTY : FRAME_CLEAN;
		TRY(rc);
	}
	if (how != COMMIT_SYNC)
		return 0;
	if (f->unsynced)
		TRY(make_durable(f));
	cut_tail(f);
	return 0;
}
