/*
 * Recovery: finds the newest whole root when the one that the header points to is torn. That
 * happens when the power fails between writes that were not synced, and the header got to the disk
 * before the rest.
 *
 * Every root with data ends with a trailer that has our fingerprint and a note with a copy of its
 * header. So roots are found by searching the file for such ends. A root is accepted if its header,
 * put in place, leads back to the same bytes, its hash is right, and all its chunks match their
 * checksums: bytes of roots older than the newest durable one may have been reused. The search
 * always finds at least the newest durable root: nothing that it needs is touched before a newer
 * one is durable, and the header, which lies in one sector, always tells its own length.
 *
 * In a large frame not all chunks are read for that; but all those are that roots newer than the
 * durable one may lack: their notes list them as young.
 */
#include "frame/format/header.h"
#include "frame/format/msgpack.h"
#include "frame/frame_impl.h"
#include "frame/held.h"
#include "frame/range.h"

#include <stdlib.h>

/*
 * Limits, so that the search ends whatever the file contains. After power cuts, files are far below
 * them. Between the newest durable root and the end of the header's root there are at most
 * YOUNG_MAX_BYTES of chunks, and what was replaced (frame_space_wants_sync). After that end there
 * may be any number of bytes that were never committed.
 */
#define STEP (1u << 20)
#define SCAN_MOST (16ull << 30)  /* bytes searched, around that end */
#define PROVE_MOST (16ull << 30) /* bytes of young chunks                          */
#define LOOK_MOST (64ull << 20)  /* bytes checked for being zero                   */

static uint64_t verify_most = 4ull << 30; /* bytes of other chunks */

void frame_recover_bound(uint64_t bytes)
{
	verify_most = bytes;
}

/*
 * Other limits depend on the length of the file: `least` plus `times` that length, but no more than
 * `most`. Our roots do not overlap if there was no sync between them, but a forged short file may
 * name thousands that all reach from its start to its end. And a few bytes may be the index of a
 * file of many terabytes, all holes.
 */
struct bound {
	uint64_t least, times, most;
};

/* Bytes of trailers; of indexes and trailers, read for their hashes; and of indexes, decoded. */
static const struct bound trailer_bound = {16 << 20, 8, 512 << 20};
static const struct bound load_bound = {64 << 20, 8, 64ull << 30};
static const struct bound index_bound = {4ull << 30, 64, 64ull << 30};

static uint64_t bound_of(struct bound b, uint64_t file_len)
{
	return min_u64(b.most, b.least + b.times * min_u64(file_len, b.most));
}

/*
 * At most this many roots are tried. A file may be closed over and over without a sync: then all
 * those roots may lack the same chunk, and only the one before them is whole.
 */
#define KEEP 4096

/* 94 01 93 CD size size DE, and the number of metalayers. */
#define TRAILER_START 9

/* From the length of the trailer to the type of the fingerprint: CE length D8 02. */
#define MARK 7

/* There is no root to go back to. The error in the frame has been noted already. */
#define IN_VAIN (-EBADMSG)

/* A root that was found: its number and its header. */
struct candidate {
	uint64_t seq;
	uint8_t head[HEADER_FIXED];
};

struct search {
	struct io *io;
	uint64_t file_len;
	struct buf head;       /* the present header, header_len bytes */
	uint64_t budget;       /* bytes that may yet be read to check trailers */
	uint64_t held;         /* bytes of `head` that are counted: held.h */
	uint64_t header_end;   /* end of the root that the header names */
	uint32_t n;
	struct candidate best[2 * KEEP]; /* the newest KEEP, and room for more before a sort */
};

static int compare_newest(const void *a, const void *b)
{
	uint64_t x = ((const struct candidate *)a)->seq, y = ((const struct candidate *)b)->seq;
	return (x < y) - (x > y);
}

/* Newest first. */
static void sort(struct search *s)
{
	qsort(s->best, s->n, sizeof *s->best, compare_newest);
	s->n = s->n < KEEP ? s->n : KEEP;
}

static void keep(struct search *s, uint64_t seq, const uint8_t head[static HEADER_FIXED])
{
	if (s->n == 2 * KEEP)
		sort(s);
	s->best[s->n].seq = seq;
	memcpy(s->best[s->n++].head, head, HEADER_FIXED);
}

/* An empty root: its header is made from the present one. */
static int judge_empty(struct search *s, struct span trailer, uint64_t end)
{
	struct root_bytes r = {.head = buf_view(&s->head), .tail = trailer, .empty = true};
	uint8_t head[HEADER_FIXED];
	struct meta m = {0};
	int rc = trailer_parse(&m, span_view(trailer));
	bool any = m.n;
	meta_deinit(&m);
	TRY(rc);
	int same = root_matches(&r);
	if (same <= 0)
		return same;
	memcpy(head, s->head.p, sizeof head);
	header_make_empty(head, end, any);
	keep(s, trailer_fingerprint(span_view(trailer)).word, head);
	return 0;
}

static int judge_data(struct search *s, struct view trailer, uint64_t end)
{
	struct meta m = {0};
	struct buf plain = {0};
	struct root_note note;
	struct frame_info info;
	int rc = trailer_parse(&m, trailer);
	const struct meta_entry *e = rc == 0 ? meta_find(&m, TRAILER_NOTE) : NULL;
	if (e && root_note_decode(&note, e->content, &plain) == 0 &&
	    header_parse(&info, note.head, s->file_len) == 0 && info.frame_len == end &&
	    info.header_len == s->head.n && info.nbytes && !info.sparse && !info.beta &&
	    info.chunk_size && range_nchunks(info.nbytes, info.chunk_size) <= FRAME_MAX_CHUNKS)
		keep(s, note.seq, note.head.p);
	meta_deinit(&m);
	buf_free(&plain);
	return rc == -ENOMEM ? rc : 0;
}

/*
 * True: our trailers begin like that. They have few metalayers; thousands would take time to parse.
 */
static bool starts_trailer(const uint8_t p[static TRAILER_START])
{
	static const uint8_t start[] = {MSGPACK_FIXARRAY | 4, 1, MSGPACK_FIXARRAY | 3, MSGPACK_U16};
	return memcmp(p, start, sizeof start) == 0 &&
	       get_be16(p + TRAILER_START - 2) <= ROOT_NOTE_LAYERS + 1;
}

/* Checks whether a trailer of `len` bytes ends at `end`. */
static int judge_trailer(struct search *s, uint64_t end, uint32_t len)
{
	uint8_t start[TRAILER_START];
	struct buf b = {0};
	if (len < TRAILER_EMPTY || end > s->file_len || len > end - s->head.n ||
	    len > FRAME_MAX_SECTION) /* such a trailer would not be loaded */
		return 0;
	/* The hash of an empty root covers the header, too. */
	bool empty = end - len == s->head.n;
	uint64_t reads = len + (empty ? s->head.n : 0);
	if (reads > s->budget)
		return 0;
	TRY(io_pread(s->io, end - len, span_of(start, sizeof start)));
	if (!starts_trailer(start))
		return 0;
	s->budget -= reads;
	held_enter(len);
	int rc = io_pread_buf(s->io, end - len, len, &b);
	if (rc == 0 && empty)
		rc = judge_empty(s, buf_span(&b), end);
	else if (rc == 0)
		rc = judge_data(s, buf_view(&b), end);
	buf_free(&b);
	held_leave(len);
	return rc == -EBADMSG ? 0 : rc;
}

static int scan_piece(struct search *s, uint64_t at, struct view piece)
{
	const uint8_t *p = piece.p, *end = piece.p + piece.n;
	while (end - p >= MARK) {
		p = memchr(p, MSGPACK_U32, (size_t)(end - p) - MARK + 1);
		if (!p)
			break;
		if (p[5] == MSGPACK_FIXEXT16 && p[6] == TRAILER_TYPE_64)
			TRY(judge_trailer(s, at + (uint64_t)(p - piece.p) + TRAILER_END,
					  get_be32(p + 1)));
		p++;
	}
	return 0;
}

/* Skips holes: no mark starts in one. */
static uint64_t data_from(struct search *s, uint64_t at)
{
	return max_u64(at, io_next_data(s->io, at));
}

/*
 * Calls `look` for the data in [at, end), piece by piece, until it returns another value than 0. A
 * piece goes on into the next, so that each mark is whole in one of them; the last one may go on
 * behind `end`, up to the end of the file.
 */
static int each_piece(struct search *s, uint64_t at, uint64_t end,
		      int (*look)(struct search *s, uint64_t at, struct view piece))
{
	struct buf b = {0};
	TRY(buf_reserve(&b, STEP + MARK));
	int rc = 0;
	for (; rc == 0 && (at = data_from(s, at)) < end; at += STEP) {
		b.n = min_u64(s->file_len - at, STEP + MARK - 1);
		rc = io_pread(s->io, at, buf_span(&b));
		if (rc == 0)
			rc = look(s, at, buf_view(&b));
	}
	buf_free(&b);
	return rc;
}

static int scan(struct search *s)
{
	uint64_t at = s->head.n, end = s->file_len;
	if (end - at > SCAN_MOST) {
		uint64_t half = min_u64(s->header_end, end - SCAN_MOST / 2);
		at = max_u64(at, half - min_u64(half, SCAN_MOST / 2));
		end = min_u64(end, at + SCAN_MOST);
	}
	return each_piece(s, at, end, scan_piece);
}

/*
 * Fails for files that are not ours to repair: not a frame at all, or its trailer is there and says
 * that another program wrote it.
 */
static int begin(struct search *s, struct io *io)
{
	uint8_t fixed[HEADER_FIXED], end[TRAILER_END];
	struct frame_info info;
	s->io = io;
	TRY(io_size(io, &s->file_len));
	s->budget = bound_of(trailer_bound, s->file_len);
	if (s->file_len < sizeof fixed)
		return IN_VAIN;
	TRY(io_pread(io, 0, span_of(fixed, sizeof fixed)));
	TRY(header_parse(&info, view_of(fixed, sizeof fixed), UINT64_MAX));
	if (info.beta || info.sparse || info.header_len > s->file_len ||
	    info.header_len > FRAME_MAX_SECTION)
		return IN_VAIN;
	if (info.frame_len <= s->file_len && info.frame_len >= sizeof end) {
		TRY(io_pread(io, info.frame_len - sizeof end, span_of(end, sizeof end)));
		bool marked = end[0] == MSGPACK_U32 && end[5] == MSGPACK_FIXEXT16;
		if (marked && end[6] == TRAILER_TYPE_NONE && get_be32(end + 1) >= TRAILER_EMPTY)
			return IN_VAIN;
	}
	s->header_end = info.frame_len;
	if (!held_take(info.header_len, info.header_len <= HELD_SMALL))
		return -ENOMEM;
	s->held = info.header_len;
	return io_pread_buf(io, 0, info.header_len, &s->head);
}

/* What it costs to load a root, without chunks: bytes to read, and bytes of the decoded index. */
struct cost {
	uint64_t reads, index;
};

static struct cost cost_of(const struct search *s, const struct candidate *c)
{
	struct frame_info info;
	if (header_parse(&info, view_of(c->head, HEADER_FIXED), s->file_len) < 0 ||
	    frame_index_at(&info) > info.frame_len)
		return (struct cost){0}; /* refused without reading the root */
	uint64_t entries = info.nbytes ? range_nchunks(info.nbytes, info.chunk_size) : 0;
	return (struct cost){info.frame_len - frame_index_at(&info), entries * sizeof(uint64_t)};
}

/* *prove and *verify: how many bytes of young and of other chunks may yet be read. */
static int try_root(struct frame *f, const struct candidate *c, uint64_t *prove, uint64_t *verify)
{
	TRY(frame_load_root(f, view_of(c->head, HEADER_FIXED), prove));
	if (*prove == 0)
		return CORRUPT("too much to prove", c->seq);
	return frame_prove_all(f, verify);
}

static int try_roots(struct frame *f, struct search *s)
{
	uint64_t load = bound_of(load_bound, s->file_len);
	uint64_t index = bound_of(index_bound, s->file_len);
	uint64_t prove = PROVE_MOST, verify = verify_most, newest = s->n ? s->best[0].seq : 0;
	for (uint32_t i = 0; i < s->n; i++) {
		struct cost cost = cost_of(s, &s->best[i]);
		if (cost.reads > load || cost.index > index)
			break;
		load -= cost.reads;
		index -= cost.index;
		int rc = try_root(f, &s->best[i], &prove, &verify);
		if (rc == 0) {
			f->seq = newest;
			f->recovered = true;
			return 0;
		}
		frame_unload(f);
		if (rc != -EBADMSG)
			return rc;
	}
	return IN_VAIN;
}

/* 1: there is something other than zeros, which may be data. */
static int is_something(struct search *s, uint64_t at, struct view piece)
{
	return !bytes_are_zero(piece);
}

/*
 * Going back to an empty file would hide what is left of a frame that was truncated or damaged
 * later, and writing to the file would destroy it. So if no other root is left in the file, the
 * empty root is accepted only if there is no data either.
 */
static int judge_emptiness(struct frame *f, struct search *s)
{
	uint64_t at = f->info.frame_len;
	if (f->nbytes || s->n > 1)
		return 0;
	int rc = each_piece(s, at, min_u64(s->file_len, at + LOOK_MOST), is_something);
	if (rc > 0)
		rc = IN_VAIN;
	if (rc < 0)
		frame_unload(f);
	return rc;
}

int frame_recover(struct frame *f)
{
	struct err_note why = *err_last();
	struct search *s = mem_zalloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	int rc = begin(s, f->io);
	if (rc == 0)
		rc = scan(s);
	sort(s);
	if (rc == 0)
		rc = try_roots(f, s);
	if (rc == 0)
		rc = judge_emptiness(f, s);
	buf_free(&s->head);
	held_give(s->held);
	mem_free(s);
	/* Reports the first error, which is the one in the frame. */
	return rc == IN_VAIN && why.file ? err_corrupt(why.file, why.line, why.what, why.value)
					  : rc;
}
