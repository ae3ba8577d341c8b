/*
 * Opening a frame: FORMAT.md 9.7, with the checks of 16. This file decides which root that is,
 * whether it is whole, and what its note says; frame_load.c loads its parts.
 */
#include "base/clock.h"
#include "frame/era.h"
#include "frame/format/header.h"
#include "frame/format/trailer.h"
#include "frame/frame_impl.h"
#include "frame/held.h"
#include "frame/io/ahead.h"
#include "frame/range.h"

/*
 * Numbers of roots, which are times, do not get that large before the year 2262. Larger ones are
 * not believed: the numbers after them would soon wrap around.
 */
#define LAST_SEQ (1ull << 63)

/*
 * Roots whose young chunks have been verified, so that each process does that only once per root:
 * hash and era of the root, indexed by the hash. A collision costs a little time.
 */
#define PROVEN 4096
static _Atomic uint64_t proven[PROVEN];

/* Checks where trailer and index are, and that the chunk area fits before them. */
static int judge_layout(const struct frame_info *info)
{
	uint64_t trailer_at = info->frame_len - info->trailer_len;
	uint64_t index_at = frame_index_at(info);
	if (info->nbytes == 0) {
		if (trailer_at != info->header_len)
			return CORRUPT("trailer of an empty frame does not follow its header",
				       trailer_at);
		return 0;
	}
	if (index_at > info->frame_len)
		return CORRUPT("chunk area ends after the frame", info->cbytes);
	if (index_at >= trailer_at || trailer_at - index_at > INT32_MAX)
		return CORRUPT("no room for the index", index_at);
	if (info->chunk_size &&
	    range_nchunks(info->nbytes, info->chunk_size) > INDEX_MAX_CHUNKS)
		return CORRUPT("too many chunks", info->nbytes);
	return 0;
}

/* Checks everything that a header says about its root, but not the root's contents. */
static int judge_root(struct io *io, struct view fixed, enum frame_layout layout,
		      struct frame_info *info)
{
	uint8_t end[TRAILER_END];
	uint64_t file_len;
	TRY(io_size(io, &file_len));
	TRY(header_parse(info, fixed, file_len));
	if (info->sparse != (layout == FRAME_SPARSE))
		return CORRUPT("type of the frame does not fit how it is stored", info->sparse);
	TRY(io_pread(io, info->frame_len - sizeof end, span_of(end, sizeof end)));
	TRY(trailer_parse_end(info, view_of(end, sizeof end)));
	return judge_layout(info);
}

static int read_fixed(struct io *io, struct span *fixed)
{
	uint64_t file_len;
	TRY(io_size(io, &file_len));
	fixed->n = min_u64(file_len, HEADER_FIXED);
	return io_pread(io, 0, *fixed);
}

int frame_read_info(struct io *io, enum frame_layout layout, struct frame_info *info)
{
	uint8_t head[HEADER_FIXED];
	struct span fixed = {head, 0};
	TRY(read_fixed(io, &fixed));
	return judge_root(io, span_view(fixed), layout, info);
}

/* -EBADMSG: by its fingerprint, the root is torn. `head` is the whole header. */
static int check_root(struct io *io, struct view head, const struct frame_info *info,
		      struct fingerprint fp)
{
	uint64_t at = frame_index_at(info);
	/* An empty root is just its first 87 bytes, which are never torn: root.h. */
	if (fp.type != TRAILER_TYPE_64 || info->nbytes == 0)
		return 0;
	return root_check_file(io, at, info->frame_len - TRAILER_PRINT - at, head, fp);
}

/* Reads the header and the fingerprint of a root, and checks the root against them. */
static int probe_root(struct io *io, const struct frame_info *info)
{
	uint8_t end[TRAILER_PRINT];
	struct buf head = {0};
	if (info->beta || info->nbytes == 0)
		return 0;
	TRY(io_pread(io, info->frame_len - sizeof end, span_of(end, sizeof end)));
	struct fingerprint fp = trailer_fingerprint(view_of(end, sizeof end));
	if (!trailer_has_fingerprint(view_of(end, sizeof end)))
		return CORRUPT("no fingerprint", end[0]);
	if (fp.type != TRAILER_TYPE_64)
		return 0;
	TRY(frame_judge_section(info->header_len));
	held_enter(info->header_len);
	int rc = io_pread_buf(io, 0, info->header_len, &head);
	if (rc == 0)
		rc = check_root(io, buf_view(&head), info, fp);
	buf_free(&head);
	held_leave(info->header_len);
	return rc;
}

/*
 * May we add our note to the metalayers of others? Not if these share contents (no known writer
 * does that), since the trailer would get longer when it is rewritten; nor if the trailer could get
 * too long to be read again.
 */
static bool has_room_for_note(const struct frame *f)
{
	return trailer_others(&f->vlmeta) <= ROOT_NOTE_LAYERS &&
	       trailer_length(&f->vlmeta, 0) <= f->trailer.n &&
	       trailer_length(&f->vlmeta, ROOT_NOTE_MOST) <= FRAME_MAX_SECTION;
}

/*
 * Replaces f->trailer, after its last use, by one without our note, as empty roots have it; each
 * commit makes a new note. If there is no room for a note, the trailer stays as it is, without its
 * fingerprint.
 */
static int strip_note(struct frame *f)
{
	struct buf plain = {0};
	f->notes = has_room_for_note(f);
	if (!f->notes) {
		trailer_set_fingerprint(buf_span(&f->trailer), (struct fingerprint){0});
		return 0;
	}
	TRY(trailer_append(&plain, &f->vlmeta, view_of(NULL, 0)));
	meta_deinit(&f->vlmeta);
	buf_free(&f->trailer);
	f->trailer = plain;
	return trailer_parse(&f->vlmeta, buf_view(&f->trailer));
}

/*
 * An upper bound for the stored bytes of these chunks, as if nothing was compressed. The runs may
 * name chunks repeatedly, or chunks that do not exist; each existing one is proven once.
 */
static uint64_t young_bytes(const struct frame *f, struct view runs)
{
	struct young_run run;
	uint64_t chunks = 0;
	while (young_next(&runs, &run))
		chunks += run.end - run.first;
	return min_u64(chunks, f->index.n) * f->info.chunk_size;
}

/* Takes over what the note says about chunks, and verifies young chunks if necessary. */
static int use_note(struct frame *f, const struct root_note *note, struct fingerprint fp,
		    uint64_t *prove)
{
	/* A header led here, and the root was synced before or after that was written. */
	bool is_synced =
		(fp.word <= ROOT_CONFIRMED || era_is_durable(fp.word)) && !f->went_back;
	_Atomic uint64_t *mark = &proven[fp.hash % PROVEN];
	f->seq = note->seq;
	f->full = f->roots.newest = note->full;
	f->recoverable = fp.word != ROOT_CONFIRMED;
	f->word = fp.word;
	TRY(frame_sums_load(f, note));
	if (is_synced)
		return 0;
	uint64_t mount = io_mount(f->io), proof = fp.hash ^ era_word(mount, 0);
	if (*mark == proof)
		return 0;
	if (era_lasts(mount, fp.word)) {
		/* they stay young: the next root lists them too, unless a sync comes first */
		young_clear(&f->young);
		f->young.bytes = young_bytes(f, note->young);
		f->young.since = (uint32_t)fp.word;
		return buf_append(&f->young.runs, note->young);
	}
	TRY(frame_prove_young(f, note->young, prove));
	*mark = proof;
	return 0;
}

/*
 * The next root's number: it has to be above that of any root in the file, including one that no
 * header leads to, since the power failed during a commit's second sync. If the clock has been set
 * back since, recovery would prefer that root to later ones. A file changed in the future tells
 * that it has. Numbers are times, so none is much above that ctime; the disk may have an older
 * ctime, but file systems keep it in memory for half a minute at most.
 *
 * If the clock is right, no number may be ahead of it: a file that gets the inode number of one
 * just removed has larger numbers, which may be all that tells the two apart (intent_record_judge).
 */
static uint64_t after_changes(struct io *io)
{
	uint64_t changed = io_changed(io);
	bool clock_is_behind = changed > clock_read(CLOCK_REALTIME) && changed < LAST_SEQ;
	return clock_is_behind ? changed + 60 * CLOCK_SECOND : 0;
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
	/* The disk may still have an older root instead, which needs the bytes after this one. */
	f->unsynced = true;
	if (io_size(f->io, &file_len) < 0)
		file_len = info->frame_len;
	frame_space_open(f, file_len);
}

/* Recovery can go back to an empty root if its trailer has our fingerprint. */
static int load_front(struct frame *f, struct fingerprint fp)
{
	struct root_bytes r = {
		.head = buf_view(&f->head), .tail = buf_span(&f->trailer), .empty = true};
	if (fp.type != TRAILER_TYPE_64)
		return 0;
	int same = root_matches(&r);
	if (same <= 0)
		return same;
	f->front = FRONT_VALID;
	f->recoverable = true;
	f->word = ROOT_SYNCED;
	f->seq = f->full = f->roots.newest = fp.word;
	return 0;
}

/*
 * Another program wrote last, and has kept our note. The root with the note's number may still be
 * in the file, as may earlier ones: the next number has to be larger, whatever the clock says. But
 * no hash vouches for the note: absurdly large numbers, which ours never are, do not count.
 */
static void heed_old_note(struct frame *f, struct view content)
{
	struct root_note note;
	struct buf plain = {0};
	if (root_note_decode(&note, content, &plain) < 0)
		err_clear(); /* that is no error of this root */
	else if (note.seq < LAST_SEQ)
		f->seq = note.seq;
	buf_free(&plain);
}

/*
 * Loads a contiguous frame that is not a beta: its fingerprint says whether it is whole, a note
 * that we have written it.
 */
static int load_marked(struct frame *f, uint64_t *prove)
{
	struct fingerprint fp = trailer_fingerprint(buf_view(&f->trailer));
	const struct meta_entry *e = meta_find(&f->vlmeta, TRAILER_NOTE);
	bool ours = fp.type == TRAILER_TYPE_64;
	struct root_note note = {0};
	struct buf plain = {0};
	int rc = 0;
	if (e && !trailer_has_fingerprint(buf_view(&f->trailer)))
		return CORRUPT("no fingerprint after a trailer of ours", f->info.frame_len);
	TRY(check_root(f->io, buf_view(&f->head), &f->info, fp));
	f->had_note = e;
	if (ours)
		f->root_id = frame_root_id(&f->info, fp);
	else if (e)
		heed_old_note(f, e->content);
	if (f->info.nbytes == 0)
		rc = load_front(f, fp);
	else if (ours && e)
		rc = root_note_decode(&note, e->content, &plain);
	if (rc == 0)
		rc = frame_load_places(f);
	if (rc == 0 && note.head.n)
		rc = use_note(f, &note, fp, prove);
	buf_free(&plain);
	return rc < 0 ? rc : strip_note(f);
}

int frame_load_root(struct frame *f, struct view fixed, uint64_t *prove)
{
	struct frame_info info;
	TRY(judge_root(f->io, fixed, frame_layout(f), &info));
	f->info = info;
	f->index.loading = f->sums.loading = f->lengths.loading = true;
	f->nbytes = f->kept = info.nbytes;
	f->word = ROOT_CONFIRMED;
	f->type_size = info.type_size;
	f->hint = info.block_size;
	TRY(frame_load_sections(f, fixed));
	TRY(info.beta || info.sparse ? frame_load_places(f) : load_marked(f, prove));
	load_writer(f);
	if (f->writable) {
		TRY(numbers_resize(&f->sums, f->index.n));
		TRY(numbers_resize(&f->lengths, f->index.n));
	}
	frame_load_settle(f);
	return 0;
}

/* Loads the root that the header points to, or else the newest whole one, and sets f->went_back. */
static int load_newest(struct frame *f)
{
	uint8_t head[HEADER_FIXED];
	struct span fixed = {head, 0};
	/*
	 * Older versions of this project allowed more young chunks: the rest is verified when it is
	 * read.
	 */
	uint64_t prove = YOUNG_MAX_BYTES;
	TRY(read_fixed(f->io, &fixed));
	int rc = frame_load_root(f, span_view(fixed), &prove);
	if (rc != -EBADMSG || frame_layout(f) == FRAME_SPARSE)
		return rc;
	frame_unload(f);
	io_ahead_again(f->io);
	f->went_back = true;
	return frame_recover(f);
}

int frame_load(struct frame *f)
{
	struct io *io = f->io;
	struct io_ahead ahead;
	f->io = io_ahead_init(&ahead, io);
	int rc = load_newest(f);
	f->io = io;
	TRY(rc);
	if (f->writable)
		f->floor = after_changes(io);
	/*
	 * A small file that is opened will be read next. No harm if there is no memory for the
	 * copy.
	 */
	if (f->info.nbytes && !f->info.sparse && !f->went_back && io_ahead_all(&ahead).n)
		IGNORE(io_mem_open(&f->copy, io_ahead_all(&ahead)));
	if (f->went_back && f->writable)
		IGNORE(frame_sync_root(f)); /* the next commit tries again */
	return 0;
}

/*
 * There is no older root to be ahead of, so the ctime is not read. That would have a price: since
 * Linux 6.13 a time stamp that was looked at makes the next one finer than a tick, and a new file
 * would have three times instead of one (docs/SPEED.md, "Times of new files").
 */
int frame_load_made(struct frame *f, struct view all)
{
	struct io *io = f->io;
	struct io_ahead ahead;
	uint64_t prove = 0; /* it has no chunks */
	f->io = io_ahead_init(&ahead, io);
	io_ahead_know(&ahead, all);
	int rc = frame_load_root(f, view_part(all, 0, HEADER_FIXED), &prove);
	if (rc == 0)
		frame_identify_root(f);
	f->io = io;
	return rc;
}

int frame_probe_all(struct io *file, struct frame_info *info)
{
	struct io_ahead ahead;
	struct frame *f;
	TRY(frame_new_take(&f, NULL, -1));
	f->io = io_ahead_init(&ahead, file); /* `file` stays the caller's */
	int rc = load_newest(f);
	if (rc == 0)
		*info = f->info;
	f->io = NULL;
	frame_close(f);
	return rc;
}

int frame_probe(struct io *file, struct frame_info *info)
{
	struct io_ahead ahead;
	struct io *io = io_ahead_init(&ahead, file);
	int rc = frame_read_info(io, FRAME_CONTIGUOUS, info);
	if (rc == 0)
		rc = probe_root(io, info);
	return rc == -EBADMSG ? frame_probe_all(file, info) : rc;
}
