/* Opening a frame: FORMAT.md 9.7, with the checks of 16. */
#include "frame/frame_impl.h"
#include "frame/header.h"
#include "frame/range.h"
#include "frame/trailer.h"

#include <assert.h>

static uint64_t index_position(const struct frame_info *info)
{
	return info->header_len + (info->sparse ? 0 : info->cbytes);
}

/* Where the trailer starts, and what lies between it and the header. */
static int judge_layout(const struct frame_info *info)
{
	uint64_t trailer_at = info->frame_len - info->trailer_len, index_at;
	if (info->nbytes == 0) {
		if (trailer_at != info->header_len)
			return CORRUPT("trailer of an empty frame is not behind its header", trailer_at);
		return 0;
	}
	if (add_overflows(info->header_len, info->cbytes, &index_at) || index_at > info->frame_len)
		if (!info->sparse)
			return CORRUPT("chunk area ends behind the frame", info->cbytes);
	index_at = index_position(info);
	if (index_at >= trailer_at || trailer_at - index_at > INT32_MAX)
		return CORRUPT("no room for the index", index_at);
	if (info->chunk_size &&
	    range_nchunks(info->nbytes, info->chunk_size) > INDEX_MAX_CHUNKS)
		return CORRUPT("too many chunks", info->nbytes);
	return 0;
}

int frame_read_info(struct io *io, bool sparse, struct frame_info *info)
{
	uint8_t head[HEADER_FIXED], end[TRAILER_END];
	uint64_t file_len;
	TRY(io_size(io, &file_len));
	size_t n = min_u64(file_len, sizeof head);
	TRY(io_pread(io, 0, span_of(head, n)));
	TRY(header_parse(info, view_of(head, n), file_len));
	if (info->sparse != sparse)
		return CORRUPT("type of the frame does not fit how it is stored", info->sparse);
	TRY(io_pread(io, info->frame_len - sizeof end, span_of(end, sizeof end)));
	TRY(trailer_parse_end(info, view_of(end, sizeof end)));
	return judge_layout(info);
}

int frame_probe(struct io *io, struct frame_info *info)
{
	return frame_read_info(io, false, info);
}

static int read_section(struct frame *f, uint64_t at, uint64_t len, struct buf *out)
{
	if (len > FRAME_MAX_SECTION)
		return UNSUPPORTED("length of metalayers", len);
	TRY(buf_reserve(out, len));
	out->n = len;
	return io_pread(f->io, at, buf_span(out));
}

static int load_sections(struct frame *f)
{
	const struct frame_info *info = &f->info;
	uint32_t at = info->beta ? HEADER_BETA_META : HEADER_META;
	TRY(read_section(f, 0, info->header_len, &f->head));
	TRY(read_section(f, info->frame_len - info->trailer_len, info->trailer_len, &f->trailer));
	if (info->header_len > (info->beta ? HEADER_BETA_FIXED : HEADER_FIXED)) {
		if (info->header_len < at)
			return CORRUPT("length of the header", info->header_len);
		TRY(meta_parse(&f->meta, buf_view(&f->head), at, META_MAX));
	}
	return trailer_parse(&f->vlmeta, buf_view(&f->trailer), info->beta);
}

int frame_load_index(const struct frame *f, struct index *ix, struct scratch *s)
{
	const struct frame_info *info = &f->info;
	uint64_t at = index_position(info);
	struct stored st = {
		.io = f->io, .at = at, .room = info->frame_len - info->trailer_len - at, .item = 8};
	struct index_rule rule = {.special = !info->beta && !info->variable};
	if (info->sparse)
		rule.last = UINT32_MAX;
	else
		rule.last = info->cbytes >= CHUNK_HEAD ? info->cbytes - CHUNK_HEAD : 0;
	uint32_t n = INDEX_ANY;
	if (info->chunk_size)
		n = (uint32_t)range_nchunks(info->nbytes, info->chunk_size);
	return index_load(ix, &st, n, rule, s);
}

static int chunk_length(const struct frame *f, uint32_t n, uint32_t *nbytes)
{
	uint8_t head[CHUNK_HEAD];
	uint32_t cbytes;
	struct stored st;
	TRY(frame_stored(f, n, &st));
	struct span want = {head, min_u64(st.room, sizeof head)};
	int rc = io_pread(st.io, st.at, want);
	if (rc == 0)
		rc = chunk_sizes(span_view(want), nbytes, &cbytes);
	frame_stored_done(f, &st);
	return rc;
}

/* Chunks of different sizes: only their headers tell where each one starts. */
static int load_starts(struct frame *f)
{
	uint32_t n = f->index.n;
	/* Without holes every chunk costs bytes; masses of repeats could only be meant to exhaust memory. */
	uint64_t most = f->info.sparse ? UINT32_MAX : f->info.cbytes / CHUNK_HEAD;
	if (n > most)
		return UNSUPPORTED("more chunks than fit into the chunk area", n);
	f->start = mem_zalloc_array((size_t)n + 1, sizeof *f->start);
	if (!f->start)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t nbytes;
		TRY(chunk_length(f, i, &nbytes));
		f->start[i + 1] = f->start[i] + nbytes;
		if (f->start[i + 1] > f->info.nbytes)
			return CORRUPT("chunks hold more than the frame says", i);
	}
	return f->start[n] == f->info.nbytes ? 0 : CORRUPT("chunks hold less than the frame says", n);
}

/* What only chunk 0 tells: the item size while a tail hides it, and the kind of its blocks. */
static int look_at_first(struct frame *f)
{
	uint8_t head[CHUNK_HEAD] = {0};
	struct stored st;
	if (f->index.n == 0 || frame_slot(f, 0) != SLOT_STORED)
		return 0;
	TRY(frame_stored(f, 0, &st));
	int rc = io_pread(st.io, st.at, span_of(head, min_u64(st.room, sizeof head)));
	frame_stored_done(f, &st);
	TRY(rc);
	bool extended = (head[2] & 5) == 5;
	f->info.vl_blocks = extended && (head[30] & 1);
	if (f->type_size == 1 && head[3] > 1)
		f->type_size = head[3];
	if (!f->info.vl_blocks)
		f->hint = get_le32(head + 8);
	return 0;
}

static int load_chunks(struct frame *f)
{
	struct scratch *s;
	if (f->info.nbytes == 0)
		return 0;
	TRY(scratch_open(&s));
	int rc = frame_load_index(f, &f->index, s);
	scratch_close(s);
	TRY(rc);
	if (!f->info.chunk_size)
		TRY(load_starts(f));
	return look_at_first(f);
}

static void load_writer(struct frame *f)
{
	struct frame_info *info = &f->info;
	uint64_t file_len;
	if (info->nbytes == 0 && info->chunk_size == 0 && !info->variable) {
		uint32_t item = info->type_size <= FRAME_DEFAULT_CHUNK ? info->type_size : 1;
		info->chunk_size = FRAME_DEFAULT_CHUNK / item * item;
	}
	f->writable = !info->sparse && !info->variable && !info->vl_blocks && !info->beta &&
		      f->index.n <= FRAME_MAX_CHUNKS && info->chunk_size <= CHUNK_MAX_NBYTES;
	if (!f->writable)
		return;
	trailer_clear_fingerprint(buf_span(&f->trailer));
	if (io_size(f->io, &file_len) < 0)
		file_len = info->frame_len;
	/* Nobody knows whether the disk has this root yet, or an older one that needs bytes behind it. */
	f->unsynced = true;
	space_init(&f->space, max_u64(info->frame_len, file_len));
}

int frame_load(struct frame *f, bool sparse)
{
	TRY(frame_read_info(f->io, sparse, &f->info));
	f->nbytes = f->info.nbytes;
	f->type_size = f->info.type_size;
	f->hint = f->info.block_size;
	TRY(load_sections(f));
	TRY(load_chunks(f));
	load_writer(f);
	return 0;
}
