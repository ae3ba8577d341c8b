/*
 * Moves what another program's frame has at the front (frame_front.c) to other places: chunks, or
 * the index. This is a commit of the data that the root on disk has; the changes since then are set
 * aside meanwhile, and stay pending.
 */
#include "frame/commit_impl.h"

#include "frame/chunk_sum.h"
#include "frame/format/trailer.h"
#include "frame/held.h"
#include "frame/io/hash.h"
#include "frame/range.h"
#include "frame/stored.h"

#include <pthread.h>

/*
 * What *f has once for the root on disk and once for the pending changes. Not f->lengths: only
 * dropping or noting a chunk uses these (frame_space.c), and neither happens meanwhile.
 */
struct version {
	struct numbers index, sums;
	struct young young;
	uint64_t nbytes;
	uint32_t chunk_size;
	uint8_t head[HEADER_FIXED]; /* with the defaults for new chunks; old ones may need theirs */
};

/* The root on disk, before its index and its note are loaded. */
static struct version version_on_disk(const struct frame *f)
{
	struct version v = {.nbytes = f->info.nbytes, .chunk_size = header_chunk_size(f->fixed)};
	memcpy(v.head, f->fixed, sizeof v.head);
	return v;
}

static void exchange(struct frame *f, struct version *v)
{
	struct version before = {.index = f->index, .sums = f->sums, .young = f->young,
				 .nbytes = f->nbytes, .chunk_size = f->info.chunk_size};
	memcpy(before.head, f->head.p, sizeof before.head);
	f->index = v->index;
	f->sums = v->sums;
	f->young = v->young;
	f->nbytes = v->nbytes;
	f->info.chunk_size = v->chunk_size;
	memcpy(f->head.p, v->head, sizeof v->head);
	*v = before;
}

static void version_deinit(struct version *v)
{
	numbers_deinit(&v->index);
	numbers_deinit(&v->sums);
	young_deinit(&v->young);
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
 * Gives the chunk a checksum if it has none: should the disk get the new root without the copy,
 * recovery has to notice.
 */
static int give_sum(struct frame *f, uint32_t n, const struct stored *st, uint32_t len)
{
	uint64_t hash;
	if (frame_sum(f, n))
		return 0;
	TRY(io_hash(st->io, st->at, len, &hash));
	return numbers_set(&f->sums, n, chunk_sum_whole(hash)) ? 0 : -ENOMEM;
}

/*
 * Copies chunk n to new space; *budget limits what overlapping chunks may cost. Not by
 * frame_copy_chunk, which verifies: a damaged chunk must not keep the file from being emptied.
 */
static int move_chunk(struct frame *f, uint32_t n, uint64_t *budget)
{
	uint64_t from = numbers_get(&f->index, n), base = f->info.header_len, to;
	struct stored st = {.io = f->io, .at = base + from, .room = f->info.cbytes - from};
	uint32_t len;
	TRY(stored_length(&st, &len));
	if (len > *budget)
		return UNSUPPORTED("chunks that overlap", from);
	*budget -= len;
	TRY(give_sum(f, n, &st, len));
	TRY(space_take(&f->space, len, &to));
	int rc = frame_copy_bytes(f, st.at, to, len);
	if (rc == 0 && !numbers_set(&f->index, n, to - base))
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
	for (uint32_t n = 0; (n = index_next_stored(&f->index, n)) < f->index.n; n++) {
		if (numbers_get(&f->index, n) >= front)
			continue;
		TRY(move_chunk(f, n, &budget));
		busy = true;
	}
	if (!busy)
		return 0;
	struct new_root to = {.nbytes = f->info.nbytes,
			      .index = &f->index,
			      .changes = CHANGES_NONE,
			      .durable = true};
	TRY(draft_commit(f, &to));
	return commit_sync(f);
}

/* Frees the copies made in vain; space_drop ignores all other chunks. */
static void drop_copies(struct frame *f)
{
	for (uint32_t n = 0; (n = index_next_stored(&f->index, n)) < f->index.n; n++)
		(void)space_drop(&f->space, f->info.header_len + numbers_get(&f->index, n));
}

static int vacate(struct frame *f)
{
	struct version v = version_on_disk(f);
	exchange(f, &v);
	int rc = reload_root(f);
	if (rc == 0)
		rc = move_front(f);
	if (rc < 0)
		drop_copies(f);
	exchange(f, &v);
	version_deinit(&v);
	return rc;
}

/*
 * The memory that this loads has no bound, since the commit must not fail for it. So large roots
 * are loaded one at a time. Lock order: this lock before that of held_enter, which the commit in
 * between needs.
 */
int front_vacate(struct frame *f)
{
	static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
	uint64_t index = range_nchunks(f->info.nbytes, header_chunk_size(f->fixed)) *
			 sizeof(uint64_t);
	bool large = 2 * index + f->info.trailer_len > HELD_FREE;
	if (large)
		pthread_mutex_lock(&alone);
	int rc = vacate(f);
	if (large)
		pthread_mutex_unlock(&alone);
	return rc;
}
