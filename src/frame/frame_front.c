/*
 * The root of a frame without data: its trailer is right after the header, at the *front*, and
 * there is nothing else. FORMAT.md 9.5.
 *
 * In frames that we created the first trailer is left there for reuse, so truncating to nothing is
 * one write of the header, like any other commit. In frames of other programs a chunk or the index
 * may be there: it is moved away first (frame_vacate.c).
 */
#include "frame/commit_impl.h"

#include "frame/format/trailer.h"

int frame_sign_empty(struct frame *f, struct view head, struct span trailer)
{
	struct root_bytes r = {.head = head, .tail = trailer, .empty = true};
	struct fingerprint fp;
	TRY(root_sign(&r, commit_next_seq(f), &fp));
	f->seq = fp.word;
	return 0;
}

/* Makes the trailer of an empty root in *out, with a new number if roots have notes. */
static int make_trailer(struct frame *f, struct buf *out)
{
	TRY(buf_append(out, buf_view(&f->trailer)));
	return f->notes ? frame_sign_empty(f, buf_view(&f->head), buf_span(out)) : 0;
}

/* Where the fingerprint of such a trailer is. */
static uint64_t print_at(const struct frame *f)
{
	return frame_front_end(f) - TRAILER_PRINT;
}

/* 1: the front already holds this trailer, apart from the fingerprint. 0: it does not. */
static int front_holds(struct frame *f, struct view trailer)
{
	struct buf there = {0};
	int rc = io_pread_buf(f->io, f->info.header_len, trailer.n, &there);
	if (rc == 0)
		rc = memcmp(there.p, trailer.p, trailer.n - TRAILER_PRINT) == 0;
	buf_free(&there);
	return rc;
}

/*
 * Writes the trailer to the front, where no root on disk may have anything else. If there is one
 * already, only its fingerprint changes, on which no empty root on disk depends.
 */
static int put_trailer(struct frame *f, struct view trailer)
{
	int same = f->suspect ? 0 : front_holds(f, trailer);
	TRY(same);
	if (f->unsynced && !same)
		TRY(commit_sync(f));
	TRY(io_pwrite(f->io, f->info.header_len, trailer));
	f->front = f->notes ? FRONT_VALID : FRONT_NONE;
	return 0;
}

static int write_trailer(struct frame *f)
{
	struct buf trailer = {0};
	int rc = make_trailer(f, &trailer);
	if (rc == 0)
		rc = put_trailer(f, buf_view(&trailer));
	buf_free(&trailer);
	return rc;
}

/* Prepares the front for an empty root, where the disk has, or may have, something else. */
static int prepare(struct frame *f, const struct new_root *to)
{
	if (f->info.nbytes)
		TRY(front_vacate(f));
	TRY(write_trailer(f));
	f->full = f->notes ? f->seq : 0;
	/* Opening an empty root proves nothing: its metalayers might be torn. */
	if (to->durable || !f->recoverable || f->vlmeta.n)
		TRY(commit_sync(f));
	return 0;
}

/* True: the root on disk is an empty one of ours, with a number. */
static bool can_renumber(const struct frame *f)
{
	return f->notes && f->front == FRONT_VALID && f->info.trailer_len == f->trailer.n;
}

/*
 * Gives the empty root on disk a new number: recovery must not prefer a root with data that was
 * written since, and given up. Only the fingerprint changes, which opening an empty root does not
 * use.
 */
static int renumber(struct frame *f)
{
	struct buf trailer = {0};
	int rc = make_trailer(f, &trailer);
	if (rc == 0)
		rc = io_pwrite(f->io, print_at(f),
			       view_from(buf_view(&trailer), trailer.n - TRAILER_PRINT));
	buf_free(&trailer);
	if (rc == 0)
		f->full = f->seq;
	return rc;
}

int front_commit(struct frame *f, const struct new_root *to)
{
	uint64_t seq = f->roots.newest;
	/* An empty root keeps its present trailer, perhaps a longer one of another program. */
	uint32_t trailer_len = f->info.trailer_len;
	if (f->info.nbytes || f->suspect) {
		TRY(prepare(f, to));
		trailer_len = (uint32_t)f->trailer.n;
		seq = f->full;
	} else if (can_renumber(f)) {
		TRY(renumber(f));
		seq = f->full;
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
	if (!can_renumber(f))
		return 0;
	f->changed = true;
	if (renumber(f) < 0)
		return 1;
	f->roots.newest = f->full;
	f->latest = true; /* as if this process had written it */
	frame_identify_root(f);
	TRY(frame_sync_io(f));
	return 1;
}

/* False: chunks of another program's frame are there, or the root was forgotten before. */
static bool front_has_root(struct frame *f)
{
	uint8_t print[TRAILER_PRINT], body[TRAILER_EMPTY];
	size_t n = min_u64(sizeof body, f->trailer.n - TRAILER_PRINT);
	return print_at(f) <= f->info.frame_len &&
	       io_pread(f->io, print_at(f), span_of(print, sizeof print)) == 0 &&
	       io_pread(f->io, f->info.header_len, span_of(body, n)) == 0 &&
	       memcmp(body, f->trailer.p, n) == 0 &&
	       trailer_fingerprint(view_of(print, sizeof print)).type == TRAILER_TYPE_64;
}

void front_forget(struct frame *f)
{
	uint8_t print[TRAILER_PRINT];
	if (f->front == FRONT_NONE || f->info.nbytes == 0)
		return;
	f->front = FRONT_NONE;
	if (!front_has_root(f))
		return;
	trailer_set_fingerprint(span_of(print, sizeof print), (struct fingerprint){0});
	IGNORE(io_pwrite(f->io, print_at(f), view_of(print, sizeof print)));
}
