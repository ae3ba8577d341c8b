/*
 * Commit: the changes in memory become a new root on disk. FORMAT.md 10.
 *
 *     header | chunks of old and new roots, garbage | new index | slack | trailer
 *       |                                               ^
 *       +--- frame_len, cbytes: one write of 87 bytes --+
 *
 *   0  commit_sync    only if young chunks could not be proven, or are too many (young.h)
 *   1  draft_root     encodes index and trailer, and takes space for them that no root on disk
 *                     refers to, as for the chunks (space.h)
 *   2  write_draft    writes them there, and syncs if commit_index says so
 *   3  commit_header  writes the header: the one step that readers see
 *   4  commit_sync    makes that durable, at once or at the next sync; after it, what
 *                     only older roots refer to can be overwritten
 *
 * A process killed before 3 leaves the old root, after it the new one. A power cut between 3 and 4
 * may leave the new header without what it points to. Then opening goes back to the newest root
 * that is whole (recover.c), of which there must be one: if the old one could not be found that way
 * (not `recoverable`), 2 syncs.
 *
 * A failure in 1 or 2 leaves the frame as it was. After a failure in 3 the file has either the old
 * header or the new one (`doubt`), and what either refers to is kept. After a failed sync nobody
 * knows what the disk has (`suspect`): redo.c.
 *
 * A frame without data has a root of another kind, which needs no index: frame_front.c.
 */
#include "frame/commit_impl.h"

#include "base/clock.h"
#include "frame/era.h"
#include "frame/meters.h"
#include "frame/range.h"

#include <assert.h>

/* The end of a root is congruent to its number modulo this: see slack_at. */
#define RESIDUES 32u

/* Up to this many bytes are inserted before a trailer, to move its end. */
#define SLACK_ROOM (4 * RESIDUES)

uint64_t commit_next_seq(const struct frame *f)
{
	uint64_t seq = max_u64(f->seq + 1, max_u64(f->floor, clock_read(CLOCK_REALTIME)));
	return seq + (f->seq + 1 - seq) % RESIDUES; /* the next residue, in any opening */
}

int commit_header(struct frame *f, const struct header_root *root, uint32_t trailer_len,
		  uint64_t seq, enum changes changes)
{
	struct frame_info *info = &f->info;
	int rc = io_pwrite(f->io, 0, view_of(f->head.p, f->suspect ? f->head.n : HEADER_FIXED));
	f->unsynced = f->changed = true;
	f->doubt = rc < 0;
	f->roots.newest = rc < 0 ? 0 : seq;
	space_use(&f->space);
	TRY(rc);
	if (info->nbytes) /* index and trailer of the old root */
		frame_space_retire(f, info->header_len + info->cbytes, info->frame_len);
	if (changes != CHANGES_NONE)
		space_pass(&f->space);
	f->firm = max_u64(f->firm, root->frame_len);
	f->roomy = 0; /* others may have filled the disk since it was asked */
	f->recovered = false;
	f->latest = true;
	memcpy(f->fixed, f->head.p, sizeof f->fixed);
	info->frame_len = root->frame_len;
	info->trailer_len = trailer_len;
	info->nbytes = root->nbytes;
	info->cbytes = root->cbytes;
	info->type_size = root->type_size;
	return 0;
}

int commit_sync(struct frame *f)
{
	TRY(frame_sync_io(f));
	young_clear(&f->young);
	if (f->recovered || f->doubt)
		return 0;
	f->unsynced = false;
	f->roots.durable = f->info.nbytes ? f->roots.newest : 0;
	frame_space_durable(f);
	return 0;
}

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
	uint32_t slack = (uint32_t)((d->seq - end) % RESIDUES);
	/*
	 * There are four places. One may split the fingerprint, so old roots rule out at most two.
	 */
	while (commit_splits_print(end + slack) ||
	       (!d->synced && slack + 2 * RESIDUES < SLACK_ROOM && root_ends_at(f, end + slack)))
		slack += RESIDUES;
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
	TRY(space_take_behind(&f->space, len + SLACK_ROOM, least, &d->at));
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
	int rc = io_pwrite(f->io, d->at, buf_view(&d->packed));
	if (rc == 0 && d->synced)
		rc = commit_sync(f);
	if (rc == 0 && frame_is_overtaken(f))
		rc = -ESTALE;
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

int commit_index(struct frame *f, const struct new_root *to)
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
	/*
	 * Sync before the header is written if that was asked for; if recovery would find no other
	 * root, should the header reach the disk before what it points to; if many bytes wait for a
	 * durable root; or if recovery could take a torn root for whole, for lack of checksums.
	 */
	d.synced = to->durable || !f->recoverable || !f->notes || frame_space_wants_sync(f) ||
		   !frame_sums_fit(to->index);
	TRY(write_root(f, &d));
	f->recoverable = f->notes;
	f->word = d.fp.word;
	if (f->notes)
		f->root_id = frame_root_id(&f->info, d.fp);
	else
		frame_identify_root(f);
	return 0;
}

static void commit_check(const struct frame *f)
{
	frame_check(f);
	assert(f->head.n == f->info.header_len);
	/* the caller must have put the short last chunk again: frame_resize */
	assert(f->stale == FRAME_NO_CHUNK);
}

/* The root in memory was found by recovery: makes the header on disk point to it. */
static int commit_recovered(struct frame *f)
{
	int rc = io_pwrite(f->io, 0, view_of(f->head.p, HEADER_FIXED));
	f->unsynced = true;
	f->recovered = rc < 0;
	frame_identify_root(f);
	return rc;
}

struct frame_roots frame_roots(const struct frame *f)
{
	struct frame_roots roots = f->roots;
	if (roots.newest) /* a COMMIT_PART may name a full commit that did not get to the disk */
		roots.newest = max_u64(roots.newest, f->full);
	/*
	 * Another program that removes all chunks leaves our note in place; our own empty roots
	 * have none.
	 */
	roots.emptied = !f->info.nbytes && !f->had_note && !f->went_back;
	return roots;
}

bool frame_recovered(const struct frame *f)
{
	return f->recovered;
}

/*
 * Makes the root on disk durable, after which it must not be lost. If this process did not write
 * it, recovery may prefer another root in the file (frame_latest), so the next commit must not rely
 * on recovery.
 */
static int sync_root(struct frame *f)
{
	if (f->recovered && f->state == FRAME_CLEAN) /* else `head` may be ahead of it */
		TRY(commit_recovered(f));
	if (f->unsynced)
		TRY(commit_sync(f));
	f->recoverable &= f->latest;
	return 0;
}

int frame_sync_root(struct frame *f)
{
	if (f->state == FRAME_BROKEN)
		return -ENOMEM;
	TRY(sync_root(f));
	frame_disk_trim(f);
	return 0;
}

void frame_cut_given_up(struct frame *f)
{
	f->recoverable = false; /* a root with those changes may lack only its header */
	if (f->state != FRAME_CLEAN || !f->writable || f->suspect || f->recovered)
		return;
	f->changed = true;
	IGNORE(frame_sync_root(f));
	f->reserved = true; /* perhaps, before the frame was loaded again */
	frame_disk_release(f);
}

/* Commits the first to->nbytes decoded bytes; what is after them stays pending. */
static int commit_cut(struct frame *f, const struct new_root *to)
{
	struct numbers index = {0};
	struct new_root cut = *to;
	cut.index = &index;
	assert(to->changes == CHANGES_PART);
	int rc = numbers_copy(&index, &f->index,
			      (uint32_t)range_nchunks(to->nbytes, f->info.chunk_size));
	if (rc == 0)
		rc = commit_index(f, &cut);
	numbers_deinit(&index);
	return rc;
}

static int commit_changes(struct frame *f, const struct new_root *to)
{
	if (to->nbytes == 0)
		return front_commit(f, to);
	return to->nbytes < f->nbytes ? commit_cut(f, to) : commit_index(f, to);
}

static int commit_root(struct frame *f, const struct new_root *to)
{
	uint64_t start = meter_now();
	commit_check(f);
	f->state = FRAME_COMMITTING;
	int rc = commit_changes(f, to);
	f->state = rc < 0 || to->nbytes < f->nbytes ? FRAME_DIRTY : FRAME_CLEAN;
	TRY(rc);
	f->root_chunk = 0;
	meter_add(METER_COMMITS, 1);
	meter_time(METER_COMMIT, start);
	if (to->changes == CHANGES_ALL) {
		f->ahead = false;
		frame_disk_release(f);
	}
	return 0;
}

/*
 * Without changes, too, if the root on disk may be lost. Or if that is a COMMIT_PART which happens
 * to lack nothing: it still has the number of an older root, and would be taken for older than what
 * the intent log has of the file.
 */
static bool wants_root(const struct frame *f, enum durability how)
{
	return f->state != FRAME_CLEAN || f->suspect || (f->ahead && how != COMMIT_PART);
}

static int commit(struct frame *f, uint64_t end, enum durability how)
{
	struct new_root to = {
		.nbytes = end,
		.index = &f->index,
		.changes = how == COMMIT_PART ? CHANGES_PART : CHANGES_ALL,
		.durable = how == COMMIT_SYNC || f->suspect, /* it must not point to lost bytes */
	};
	bool writes = wants_root(f, how);
	if (f->state == FRAME_BROKEN)
		return -ENOMEM;
	if (writes)
		TRY(commit_root(f, &to));
	if (!to.durable)
		return 0;
	TRY(sync_root(f));
	f->suspect = false;
	if (writes) { /* else the times of the file stay */
		front_forget(f);
		frame_disk_trim(f);
	}
	return 0;
}

bool frame_dirty(const struct frame *f)
{
	return f->state != FRAME_CLEAN || f->ahead;
}

bool frame_writes(const struct frame *f, enum durability how)
{
	return wants_root(f, how) || (f->recovered && how == COMMIT_SYNC);
}

int frame_commit(struct frame *f, enum durability how)
{
	return commit(f, f->nbytes, how);
}

uint64_t frame_kept(const struct frame *f)
{
	return f->kept;
}

int frame_commit_part(struct frame *f, uint32_t missing)
{
	uint64_t end = max_u64(f->kept, (uint64_t)missing * f->info.chunk_size);
	assert(end >= f->nbytes || end % f->info.chunk_size == 0 ||
	       frame_slot(f, range_chunk(end, f->info.chunk_size)) != SLOT_STORED);
	if (end == 0 && f->info.nbytes == 0 && !f->suspect)
		return 0;
	return commit(f, min_u64(end, f->nbytes), COMMIT_PART);
}
