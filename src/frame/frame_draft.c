/*
 * Writing a root with data: steps 0 to 3 at the top of frame_commit.c.
 */
#include "frame/commit_impl.h"

#include "frame/era.h"

#include <assert.h>

/* Up to this many bytes are inserted before a trailer, to move its end. */
#define SLACK_ROOM (4 * COMMIT_RESIDUES)

/* A root that is being written: index and trailer, and the header that will point to them. */
struct draft {
	struct new_root to;
	uint64_t at;           /* where `packed` goes */
	struct buf packed;     /* index, slack, trailer */
	struct buf sums;       /* as in the note */
	uint32_t trailer_len;
	struct header_root root;
	uint64_t seq, full;    /* as in the note */
	struct fingerprint fp;
	bool synced;           /* all is synced before the header, so its chunks need no proof */
};

static int sign(struct frame *f, struct draft *d)
{
	struct root_bytes r = {.head = buf_view(&f->head), .tail = buf_span(&d->packed)};
	uint64_t word = ROOT_SYNCED;
	if (!d->synced && f->young.runs.n)
		word = era_word(io_mount(f->io), era_root(f->young.since));
	return root_sign(&r, word, &d->fp);
}

/*
 * Appends the trailer to the index, with a note if roots get one. The note contains the header, so
 * the place must be known by now.
 */
static int pack_trailer(struct frame *f, struct draft *d)
{
	struct buf content = {0};
	if (!f->notes)
		return buf_append(&d->packed, buf_view(&f->trailer));
	struct root_note note = {.seq = d->seq,
				 .full = d->full,
				 .head = view_of(f->head.p, HEADER_FIXED),
				 .young = buf_view(&f->young.runs),
				 .sums = buf_view(&d->sums)};
	int rc = root_note_encode(&note, &content);
	if (rc == 0)
		rc = trailer_append(&d->packed, &f->vlmeta, buf_view(&content));
	buf_free(&content);
	return rc < 0 ? rc : sign(f, d);
}

/* True: an older root that ends at `end` may still be there, whole. */
static bool root_ends_at(struct frame *f, uint64_t end)
{
	uint8_t last[TRAILER_PRINT];
	uint64_t size;
	if (io_size(f->io, &size) == 0 && size < end)
		return false;
	return io_pread(f->io, end - sizeof last, span_of(last, sizeof last)) < 0 ||
	       trailer_fingerprint(view_of(last, sizeof last)).type == TRAILER_TYPE_64;
}

/*
 * How many bytes to insert before a trailer that would end at `end`, so that its fingerprint lies
 * within one sector and the root ends where no older root did.
 *
 * Why the latter: suppose an older root had the same place and the same end. The new header might
 * be identical to its header byte for byte, and may reach the disk before what it points to. The
 * disk would then seem to have a whole root, though chunks of the old one may have been overwritten
 * since, and newer roots synced. Reading that place shows what was written there last, but not what
 * the disk has there, nor what it has beyond a truncated end of the file. Hence each root ends
 * where the last 31 did not, whatever their lengths, even if they were written before the file was
 * reopened.
 */
static uint32_t slack_at(struct frame *f, const struct draft *d, uint64_t end)
{
	uint32_t slack = (uint32_t)((d->seq - end) % COMMIT_RESIDUES);
	/*
	 * There are four places. One may split the fingerprint, so old roots rule out at most two.
	 */
	while (commit_splits_print(end + slack) ||
	       (!d->synced && slack + 2 * COMMIT_RESIDUES < SLACK_ROOM &&
		root_ends_at(f, end + slack)))
		slack += COMMIT_RESIDUES;
	assert(slack < SLACK_ROOM);
	return slack;
}

/* Enters the root into the header in memory. Moved data keeps the item size of its old header. */
static void enter_root(struct frame *f, struct draft *d)
{
	if (d->to.changes == CHANGES_NONE) {
		d->root.type_size = f->info.type_size;
		header_set_root(f->head.p, &d->root);
	} else {
		d->root.type_size = commit_type_size(f, d->to.index, d->to.nbytes);
		commit_enter_root(f, &d->root);
	}
	header_set_vlmeta(f->head.p, f->notes || f->vlmeta.n);
}

/* Chooses the place of index and trailer, and enters it into the header in memory. */
static int place(struct frame *f, struct draft *d)
{
	static const uint8_t zeros[SLACK_ROOM];
	uint64_t least, len = d->packed.n + d->trailer_len;
	TRY(frame_live_end(f, d->to.index, &least));
	TRY(buf_reserve(&d->packed, len + SLACK_ROOM));
	TRY(space_take_after(&f->space, len + SLACK_ROOM, least, &d->at));
	uint32_t slack = slack_at(f, d, d->at + len);
	len += slack;
	space_shorten(&f->space, d->at, len);
	IGNORE(buf_append(&d->packed, view_of(zeros, slack))); /* reserved above */
	d->root = (struct header_root){
		.frame_len = d->at + len,
		.nbytes = d->to.nbytes,
		.cbytes = d->at - f->info.header_len,
		.chunk_size = f->info.chunk_size,
	};
	enter_root(f, d);
	return 0;
}

/*
 * Each chunk has 8 bytes in the index and 8 in the note, but holes cost nothing: then the root is
 * about as short as the last one.
 */
uint64_t frame_root_most(const struct frame *f)
{
	uint64_t n = f->index.n, last = f->info.frame_len - f->info.header_len - f->info.cbytes;
	size_t young = YOUNG_RUN_BYTES * min_u64(n, YOUNG_MAX_RUNS);
	return min_u64(16 * n, 4 * last) + CHUNK_HEAD + SLACK_ROOM +
	       trailer_length(&f->vlmeta, root_note_length(true, young, 0));
}

/* Encodes index and trailer in memory, and takes space for them. */
static int draft_root(struct frame *f, struct draft *d)
{
	d->trailer_len = (uint32_t)f->trailer.n;
	TRY(index_encode(d->to.index, &d->packed));
	if (f->notes) {
		TRY(frame_sums_pack(f, d->to.index, &d->sums));
		size_t note = root_note_length(d->full != d->seq, f->young.runs.n, d->sums.n);
		d->trailer_len = (uint32_t)trailer_length(&f->vlmeta, note);
	}
	TRY(place(f, d));
	int rc = pack_trailer(f, d);
	if (rc < 0)
		space_give(&f->space, d->at, d->root.frame_len - d->at);
	return rc;
}

/*
 * Writes index and trailer, to which nothing refers yet, and syncs if that has to precede the
 * header.
 */
static int write_draft(struct frame *f, struct draft *d)
{
	int rc = frame_is_overtaken(f) ? -ESTALE : io_pwrite(f->io, d->at, buf_view(&d->packed));
	if (rc == 0 && d->synced)
		rc = commit_sync(f);
	if (rc == 0 && frame_is_overtaken(f)) {
		f->recoverable = false; /* the draft may be whole, and lacks only its header */
		rc = -ESTALE;
	}
	if (rc < 0)
		space_give(&f->space, d->at, d->packed.n);
	return rc;
}

/*
 * True: some young chunks could not be proven after a power cut, or only by reading more than
 * recovery does. They have to be synced before a root that has them is written: recovery might
 * wrongly take that root for whole, or could not go back to it once it is durable.
 */
static bool cannot_prove(const struct frame *f, const struct numbers *ix)
{
	const struct young *y = &f->young;
	return f->notes && (y->many || y->bare || y->bytes > YOUNG_MAX_BYTES ||
			    (y->runs.n && !frame_sums_fit(ix)));
}

/* Writes everything that belongs to a new root. */
static int write_root(struct frame *f, struct draft *d)
{
	int rc = draft_root(f, d);
	if (rc == 0)
		rc = write_draft(f, d);
	uint64_t len = d->packed.n;
	buf_free(&d->packed);
	buf_free(&d->sums);
	TRY(rc);
	space_put(&f->space, d->at, len);
	rc = commit_header(f, &d->root, d->trailer_len, f->notes ? d->full : 0, d->to.changes);
	if (rc < 0)
		space_retire(&f->space, d->at, len);
	return rc;
}

/*
 * True: everything is synced before the header is written: if that was asked for; if recovery would
 * find no other root, should the header reach the disk before what it points to; if many bytes wait
 * for a durable root; or if recovery could take a torn root for whole, for lack of checksums.
 */
static bool syncs_first(const struct frame *f, const struct new_root *to)
{
	return to->durable || !f->recoverable || !f->notes || frame_space_wants_sync(f) ||
	       !frame_sums_fit(to->index);
}

int draft_commit(struct frame *f, const struct new_root *to)
{
	struct draft d = {.to = *to, .seq = commit_next_seq(f)};
	f->seq = d.seq; /* even if this fails: the next root ends elsewhere */
	if (to->changes == CHANGES_ALL) {
		/* the index is complete, whether or not this root gets to the disk */
		f->full = d.seq;
		f->kept = f->nbytes;
	}
	d.full = to->changes == CHANGES_NONE ? f->roots.newest : f->full;
	if (cannot_prove(f, to->index))
		TRY(commit_sync(f));
	d.synced = syncs_first(f, to);
	TRY(write_root(f, &d));
	f->recoverable = f->notes;
	f->word = d.fp.word;
	if (f->notes)
		f->root_id = frame_root_id(&f->info, d.fp);
	else
		frame_identify_root(f);
	return 0;
}
