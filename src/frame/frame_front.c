/*
 * The root of a frame without data: its trailer is right after the header (the *front*), and there
 * is nothing else. FORMAT.md 9.5.
 *
 * In frames that we created the first trailer is left there for reuse, so truncating to nothing is
 * one write of the header, like any other commit. In frames of other programs a chunk or the index
 * may be there: it is moved away first, by a commit of its own.
 */
#include "frame/commit_impl.h"

#include "frame/chunk_sum.h"
#include "frame/format/trailer.h"
#include "frame/held.h"
#include "frame/io/hash.h"
#include "frame/range.h"
#include "frame/stored.h"

#include <pthread.h>

int frame_sign_empty(struct frame *f, struct view head, struct span trailer)
{
	struct root_bytes r = {.head = head, .tail = trailer, .empty = true};
	struct fingerprint fp;
	TRY(root_sign(&r, commit_next_seq(f), &fp));
	f->seq = fp.word;
	return 0;
}

/*
 * The pending changes, set aside while *f stands for the root on disk. f->lengths stays that of the
 * changes: only dropping or noting a chunk uses it (frame_space.c), and neither happens meanwhile.
 */
struct pending {
	struct numbers index, sums;
	struct young young;
	uint64_t nbytes;
	uint32_t chunk_size, root_chunk;
	uint8_t head[HEADER_FIXED]; /* with the defaults for new chunks; old ones may need theirs */
};

static struct pending set_aside(struct frame *f)
{
	struct pending p = {.index = f->index, .sums = f->sums, .young = f->young,
			    .nbytes = f->nbytes, .chunk_size = f->info.chunk_size,
			    .root_chunk = f->root_chunk};
	memcpy(p.head, f->head.p, sizeof p.head);
	memcpy(f->head.p, f->fixed, sizeof f->fixed);
	f->index = f->sums = (struct numbers){0};
	f->young = (struct young){0};
	f->nbytes = f->info.nbytes;
	if (f->root_chunk)
		f->info.chunk_size = f->root_chunk;
	f->root_chunk = 0;
	return p;
}

static void take_back(struct frame *f, const struct pending *p)
{
	numbers_deinit(&f->index);
	numbers_deinit(&f->sums);
	young_deinit(&f->young);
	memcpy(f->head.p, p->head, sizeof p->head);
	f->index = p->index;
	f->sums = p->sums;
	f->young = p->young;
	f->nbytes = p->nbytes;
	f->info.chunk_size = p->chunk_size;
	f->root_chunk = p->root_chunk;
}

/*
 * Loads checksums and young chunks from the note of the root on disk, unless another program wrote
 * that.
 */
static int reload_note(struct frame *f, struct view trailer, struct meta *m, struct buf *plain)
{
	struct root_note note;
	TRY(trailer_parse(m, trailer));
	const struct meta_entry *e = meta_find(m, TRAILER_NOTE);
	if (!e || trailer_fingerprint(trailer).type != TRAILER_TYPE_64)
		return 0;
	TRY(root_note_decode(&note, e->content, plain));
	TRY(frame_sums_load(f, &note));
	return buf_append(&f->young.runs, note.young);
}

/* Loads the index of the root on disk again, and what its note says of the chunks. */
static int reload_root(struct frame *f)
{
	struct buf trailer = {0}, plain = {0};
	struct meta m = {0};
	struct scratch *s;
	TRY(scratch_open(&s));
	int rc = frame_load_index(f, s);
	scratch_close(s);
	if (rc == 0)
		rc = io_pread_buf(f->io, f->info.frame_len - f->info.trailer_len,
				  f->info.trailer_len, &trailer);
	if (rc == 0)
		rc = reload_note(f, buf_view(&trailer), &m, &plain);
	meta_deinit(&m);
	buf_free(&plain);
	buf_free(&trailer);
	return rc < 0 ? rc : numbers_resize(&f->sums, f->index.n);
}

/*
 * Copies chunk i to new space; *budget limits what overlapping chunks may cost. The chunk gets a
 * checksum if it has none: should the disk get the new root without the copy, recovery has to
 * notice. Not by frame_copy_chunk, which verifies: a damaged chunk must not keep the file from
 * being emptied.
 */
static int move_chunk(struct frame *f, uint32_t i, uint64_t *budget)
{
	uint64_t from = numbers_get(&f->index, i), base = f->info.header_len, to, hash;
	struct stored st = {.io = f->io, .at = base + from, .room = f->info.cbytes - from};
	uint32_t len;
	TRY(stored_length(&st, &len));
	if (len > *budget)
		return UNSUPPORTED("chunks that overlap", from);
	*budget -= len;
	if (!frame_sum(f, i)) {
		TRY(io_hash(st.io, st.at, len, &hash));
		if (!numbers_set(&f->sums, i, chunk_sum_whole(hash)))
			return -ENOMEM;
	}
	TRY(space_take(&f->space, len, &to));
	int rc = stored_copy(&st, f->io, to, len);
	if (rc == 0 && !numbers_set(&f->index, i, to - base))
		rc = -ENOMEM;
	if (rc < 0)
		space_give(&f->space, to, len);
	else
		space_put(&f->space, to, len);
	return rc;
}

/*
 * A limit for the bytes of the chunks at the front. Valid ones do not overlap: all but the last end
 * within the front, and that one is at most a little longer than its decoded bytes. Hostile ones,
 * in a file of a few KB, may claim terabytes, all of which would be written.
 */
#define MOVE_SPARE (1u << 20)

static uint64_t front_most(const struct frame *f)
{
	return min_u64(f->info.cbytes, f->trailer.n + 2ull * f->info.chunk_size + MOVE_SPARE);
}

static int move_front(struct frame *f)
{
	uint64_t front = f->trailer.n, budget = front_most(f);
	bool busy = f->info.cbytes < front; /* the index itself is at the front */
	for (uint32_t i = 0; i < f->index.n; i++) {
		uint64_t entry = numbers_get(&f->index, i);
		if (!entry_is_stored(entry) || entry >= front)
			continue;
		TRY(move_chunk(f, i, &budget));
		busy = true;
	}
	if (!busy)
		return 0;
	struct new_root to = {.nbytes = f->info.nbytes,
			      .index = &f->index,
			      .changes = CHANGES_NONE,
			      .durable = true};
	TRY(commit_index(f, &to));
	return commit_sync(f);
}

/* Commits the data of the root on disk again, moved away from the front. */
static int vacate(struct frame *f)
{
	struct pending p = set_aside(f);
	int rc = reload_root(f);
	if (rc == 0)
		rc = move_front(f);
	/* Frees the copies made in vain; space_drop ignores all other chunks. */
	for (uint32_t i = 0; rc < 0 && (i = index_next_stored(&f->index, i)) < f->index.n; i++)
		(void)space_drop(&f->space, f->info.header_len + numbers_get(&f->index, i));
	take_back(f, &p);
	return rc;
}

/*
 * The memory that this loads has no bound, since the commit must not fail for it. So large roots
 * are loaded one at a time. Lock order: this lock before that of held_enter, which the commit in
 * between needs.
 */
static int vacate_front(struct frame *f)
{
	static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
	uint32_t chunk_size = f->root_chunk ? f->root_chunk : f->info.chunk_size;
	uint64_t index = range_nchunks(f->info.nbytes, chunk_size) * sizeof(uint64_t);
	bool large = 2 * index + f->info.trailer_len > HELD_FREE;
	if (large)
		pthread_mutex_lock(&alone);
	int rc = vacate(f);
	if (large)
		pthread_mutex_unlock(&alone);
	return rc;
}

/* Makes the trailer of an empty root in *out, with a new number if roots have notes. */
static int make_trailer(struct frame *f, struct buf *out)
{
	TRY(buf_append(out, buf_view(&f->trailer)));
	return f->notes ? frame_sign_empty(f, buf_view(&f->head), buf_span(out)) : 0;
}

/* *same: the front already holds such a trailer, apart from the fingerprint. */
static int compare_front(struct frame *f, struct view trailer, bool *same)
{
	struct buf there = {0};
	int rc = io_pread_buf(f->io, f->info.header_len, trailer.n, &there);
	*same = rc == 0 && memcmp(there.p, trailer.p, trailer.n - TRAILER_PRINT) == 0;
	buf_free(&there);
	return rc;
}

static int put_front(struct frame *f, struct view trailer)
{
	bool same = false;
	if (!f->suspect)
		TRY(compare_front(f, trailer, &same));
	if (f->unsynced && !same)
		TRY(commit_sync(f));
	TRY(io_pwrite(f->io, f->info.header_len, trailer));
	f->front = f->notes ? FRONT_VALID : FRONT_NONE;
	return 0;
}

/*
 * Writes the trailer to the front, where no root on disk may have anything else. If there is one
 * already, only its fingerprint changes, on which no empty root on disk depends.
 */
static int write_front(struct frame *f)
{
	struct buf trailer = {0};
	int rc = make_trailer(f, &trailer);
	if (rc == 0)
		rc = put_front(f, buf_view(&trailer));
	buf_free(&trailer);
	return rc;
}

/*
 * Gives the empty root on disk a new number: recovery must not prefer a root with data that was
 * written since, and given up. Only the fingerprint changes, which opening an empty root does not
 * use.
 */
static int renumber(struct frame *f, uint64_t *seq)
{
	size_t body = f->trailer.n - TRAILER_PRINT;
	struct buf trailer = {0};
	if (!f->notes || f->front != FRONT_VALID || f->info.trailer_len != f->trailer.n)
		return 0;
	int rc = make_trailer(f, &trailer);
	if (rc == 0)
		rc = io_pwrite(f->io, f->info.header_len + body,
			       view_part(buf_view(&trailer), body, TRAILER_PRINT));
	buf_free(&trailer);
	if (rc == 0)
		*seq = f->full = f->seq;
	return rc;
}

int front_commit(struct frame *f, const struct new_root *to)
{
	uint64_t seq = f->roots.newest;
	/* An empty root keeps its present trailer, perhaps a longer one of another program. */
	uint32_t trailer_len = f->info.trailer_len;
	if (f->info.nbytes)
		TRY(vacate_front(f));
	if (f->info.nbytes || f->suspect) {
		TRY(write_front(f));
		trailer_len = (uint32_t)f->trailer.n;
		seq = f->full = f->notes ? f->seq : 0;
		/* Opening an empty root proves nothing: its metalayers might be torn. */
		if (to->durable || !f->recoverable || f->vlmeta.n)
			TRY(commit_sync(f));
	} else {
		TRY(renumber(f, &seq));
	}
	struct header_root root = {
		.frame_len = f->info.header_len + trailer_len,
		.type_size = commit_type_size(f, &f->index, 0),
		.chunk_size = f->info.chunk_size,
	};
	commit_enter_root(f, &root);
	header_set_vlmeta(f->head.p, f->vlmeta.n);
	TRY(commit_header(f, &root, trailer_len, seq, to->changes));
	f->recoverable = f->front == FRONT_VALID;
	f->word = ROOT_SYNCED;
	frame_identify_root(f);
	return 0;
}

int front_confirm(struct frame *f)
{
	uint64_t seq = 0;
	f->changed = true;
	if (renumber(f, &seq) < 0)
		return 1;
	if (!seq)
		return 0;
	f->roots.newest = seq;
	f->latest = true; /* as if this process had written it */
	frame_identify_root(f);
	TRY(frame_sync_io(f));
	return 1;
}

void front_forget(struct frame *f)
{
	uint8_t end[TRAILER_PRINT], body[TRAILER_EMPTY];
	uint64_t at = (uint64_t)f->info.header_len + f->trailer.n - TRAILER_PRINT;
	size_t n = min_u64(sizeof body, f->trailer.n - TRAILER_PRINT);
	if (f->front == FRONT_NONE || f->info.nbytes == 0)
		return;
	f->front = FRONT_NONE;
	if (at > f->info.frame_len || io_pread(f->io, at, span_of(end, sizeof end)) < 0 ||
	    io_pread(f->io, f->info.header_len, span_of(body, n)) < 0)
		return;
	if (memcmp(body, f->trailer.p, n) != 0 ||
	    trailer_fingerprint(view_of(end, sizeof end)).type != TRAILER_TYPE_64)
		return; /* chunks of another program's frame, or already invalidated */
	trailer_set_fingerprint(span_of(end, sizeof end), (struct fingerprint){0});
	IGNORE(io_pwrite(f->io, at, view_of(end, sizeof end)));
}
