/*
 * Loads the parts of a root that is being opened: header and trailer with their metalayers, and
 * where its chunks are. Whatever the file claims, memory and time are in proportion to what is
 * really there, and memory that is kept is counted (held.h).
 */
#include "frame/format/header.h"
#include "frame/frame_impl.h"
#include "frame/held.h"
#include "frame/range.h"

#include <assert.h>

int frame_judge_section(uint32_t len)
{
	return len > FRAME_MAX_SECTION ? UNSUPPORTED("length of metalayers", len) : 0;
}

/* Counts memory that is held until the frame is closed. */
static int hold(struct frame *f, uint64_t bytes)
{
	if (!held_take(bytes, f->held + bytes <= HELD_SMALL))
		return -ENOMEM;
	f->held += bytes;
	return 0;
}

static uint64_t meta_bytes(const struct frame *f)
{
	return (f->meta.n + f->vlmeta.n) * sizeof *f->vlmeta.entry;
}

int frame_load_sections(struct frame *f, struct view fixed)
{
	const struct frame_info *info = &f->info;
	uint32_t at = info->beta ? HEADER_BETA_META : HEADER_META;
	TRY(frame_judge_section(info->header_len));
	TRY(frame_judge_section(info->trailer_len));
	/* The trailer counts twice, since a note may be decoded from it. */
	TRY(hold(f, info->header_len + 2ull * info->trailer_len));
	TRY(io_pread_buf(f->io, 0, info->header_len, &f->head));
	memcpy(f->head.p, fixed.p, min_u64(fixed.n, f->head.n));
	memcpy(f->fixed, f->head.p, min_u64(sizeof f->fixed, f->head.n));
	TRY(io_pread_buf(f->io, info->frame_len - info->trailer_len, info->trailer_len,
			 &f->trailer));
	if (info->header_len > (info->beta ? HEADER_BETA_FIXED : HEADER_FIXED)) {
		if (info->header_len < at)
			return CORRUPT("length of the header", info->header_len);
		TRY(meta_parse(&f->meta, buf_view(&f->head), at, META_MAX));
	}
	if (!info->beta)
		TRY(trailer_parse(&f->vlmeta, buf_view(&f->trailer)));
	return hold(f, meta_bytes(f));
}

/*
 * How much of a claimed length is believed: always `least` bytes; more only as far as the file
 * takes space on the disk, since a file of holes may claim any length.
 */
static uint64_t most_bytes(const struct frame *f, uint64_t claimed, uint64_t least)
{
	return claimed <= least ? least : max_u64(min_u64(claimed, io_taken(f->io)), least);
}

int frame_load_index(struct frame *f, struct scratch *s)
{
	const struct frame_info *info = &f->info;
	uint64_t at = frame_index_at(info);
	struct stored st = {
		.io = f->io, .at = at, .room = info->frame_len - info->trailer_len - at, .item = 8};
	/* As much as our largest index; more only in proportion to the file. */
	uint64_t least = FRAME_MAX_CHUNKS * sizeof(uint64_t);
	struct index_rule rule = {
		.special = !info->beta && !info->variable,
		.most = most_bytes(f, info->frame_len, least),
	};
	if (info->sparse)
		rule.last = UINT32_MAX;
	else
		rule.last = info->cbytes >= CHUNK_HEAD ? info->cbytes - CHUNK_HEAD : 0;
	uint32_t n = INDEX_ANY;
	if (info->chunk_size)
		n = (uint32_t)range_nchunks(info->nbytes, info->chunk_size);
	return index_load(&f->index, &st, n, rule, s);
}

/* Reads the first bytes of a stored chunk: *n of them, CHUNK_HEAD unless the room is shorter. */
static int read_chunk_head(const struct frame *f, uint32_t chunk, uint8_t head[static CHUNK_HEAD],
			   size_t *n)
{
	struct stored st;
	TRY(frame_stored(f, chunk, &st));
	*n = min_u64(st.room, CHUNK_HEAD);
	int rc = io_pread(st.io, st.at, span_of(head, *n));
	frame_stored_done(f, &st);
	return rc;
}

/*
 * Without holes every chunk takes bytes, or has a file of its own; many entries for the same chunk
 * could only be meant to exhaust memory and patience.
 */
static int judge_number(const struct frame *f)
{
	uint64_t n = f->index.n, files, least = (uint64_t)FRAME_MAX_CHUNKS * CHUNK_HEAD;
	if (f->info.sparse) {
		TRY(sframe_count_files(f->dirfd, n, &files));
		return n > files ? UNSUPPORTED("more chunks than files", n) : 0;
	}
	if (n > f->info.cbytes / CHUNK_HEAD)
		return UNSUPPORTED("more chunks than fit into the chunk area", n);
	if (n > most_bytes(f, f->info.cbytes, least) / CHUNK_HEAD)
		return UNSUPPORTED("more chunks than the file has bytes for", n);
	return 0;
}

/* For chunks of different sizes: only their headers tell where each one starts. */
static int load_starts(struct frame *f)
{
	uint32_t n = f->index.n;
	TRY(judge_number(f));
	TRY(hold(f, (n + 1ull) * sizeof *f->start));
	f->start = mem_zalloc_array((size_t)n + 1, sizeof *f->start);
	if (!f->start)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t head[CHUNK_HEAD];
		uint32_t nbytes, cbytes;
		size_t len;
		TRY(read_chunk_head(f, i, head, &len));
		TRY(chunk_sizes(view_of(head, len), &nbytes, &cbytes));
		f->start[i + 1] = f->start[i] + nbytes;
		if (f->start[i + 1] > f->info.nbytes)
			return CORRUPT("chunks hold more than the frame says", i);
	}
	return f->start[n] == f->info.nbytes ? 0
					     : CORRUPT("chunks hold less than the frame says", n);
}

/*
 * Finds out what only chunk 0 tells: the item size, where a partial item at the end makes the
 * header say 1, and the kind of blocks.
 */
static int look_at_first(struct frame *f)
{
	uint8_t head[CHUNK_HEAD] = {0};
	size_t len;
	if (f->index.n == 0 || frame_slot(f, 0) != SLOT_STORED)
		return 0;
	TRY(read_chunk_head(f, 0, head, &len));
	struct chunk_traits first = chunk_traits(head);
	f->info.vl_blocks = first.vl_blocks;
	if (f->type_size == 1 && first.typesize > 1)
		f->type_size = first.typesize;
	if (!first.vl_blocks)
		f->hint = first.blocksize;
	return 0;
}

/* Memory for reading an index, besides the index itself; index.c has limits of its own. */
#define INDEX_MEMORY (32u << 20)

static int load_large_index(struct frame *f, struct scratch *s)
{
	numbers_deinit(&f->index);
	f->index.loading = true;
	held_enter(INDEX_MEMORY);
	scratch_bound(s, INDEX_MEMORY);
	int rc = frame_load_index(f, s);
	held_leave(INDEX_MEMORY);
	return rc;
}

int frame_load_places(struct frame *f)
{
	struct scratch *s;
	if (f->info.nbytes == 0)
		return 0;
	TRY(scratch_open(&s));
	scratch_bound(s, HELD_FREE);
	int rc = frame_load_index(f, s);
	if (rc == -E2BIG)
		rc = load_large_index(f, s);
	if (rc == -E2BIG)
		rc = UNSUPPORTED("memory for reading the index", scratch_wanted(s));
	scratch_close(s);
	TRY(rc);
	if (!f->info.chunk_size)
		TRY(load_starts(f));
	return look_at_first(f);
}

void frame_load_settle(struct frame *f)
{
	uint64_t start = f->start ? (f->index.n + 1ull) * sizeof *f->start : 0;
	uint64_t now = f->head.n + f->trailer.n + meta_bytes(f) + start;
	assert(now <= f->held); /* a trailer does not get longer without its note */
	held_give(f->held - now);
	f->held = now;
	f->index.loading = f->sums.loading = f->lengths.loading = false;
}
