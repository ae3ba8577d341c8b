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
 *   2  write_draft    writes them there, and syncs if syncs_first
 *   3  commit_header  writes the header: the one step that readers see
 *   4  commit_sync    makes that durable, at once or at the next sync; after it, what
 *                     only older roots refer to can be overwritten
 *
 * Steps 0 to 3 are frame_draft.c; a frame without data has a root of another kind, which needs no
 * index: frame_front.c. This file decides which of them it is, and when to sync.
 *
 * A process killed before 3 leaves the old root, after it the new one. A power cut between 3 and 4
 * may leave the new header without what it points to. Then opening goes back to the newest root
 * that is whole (recover.c), of which there must be one: if the old one could not be found that way
 * (not `recoverable`), 2 syncs.
 *
 * A failure in 1 or 2 leaves the frame as it was. After a failure in 3 the file has either the old
 * header or the new one (`doubt`), and what either refers to is kept. After a failed sync nobody
 * knows what the disk has (`suspect`): redo.c.
 */
#include "frame/commit_impl.h"

#include "base/clock.h"
#include "frame/meters.h"
#include "frame/range.h"

#include <assert.h>

uint64_t commit_next_seq(const struct frame *f)
{
	uint64_t seq = max_u64(f->seq + 1, max_u64(f->floor, clock_read(CLOCK_REALTIME)));
	return seq + (f->seq + 1 - seq) % COMMIT_RESIDUES; /* the next residue, in any opening */
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
		rc = draft_commit(f, &cut);
	numbers_deinit(&index);
	return rc;
}

static int commit_changes(struct frame *f, const struct new_root *to)
{
	if (to->nbytes == 0)
		return front_commit(f, to);
	return to->nbytes < f->nbytes ? commit_cut(f, to) : draft_commit(f, to);
}

static int commit_root(struct frame *f, const struct new_root *to)
{
	uint64_t start = meter_now();
	commit_check(f);
	f->state = FRAME_COMMITTING;
	int rc = commit_changes(f, to);
	f->state = rc < 0 || to->nbytes < f->nbytes ? FRAME_DIRTY : FRAME_CLEAN;
	TRY(rc);
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

bool frame_writes(const struct frame *f, enum durability how)
{
	return wants_root(f, how) || (f->recovered && how == COMMIT_SYNC);
}

int frame_commit(struct frame *f, enum durability how)
{
	return commit(f, f->nbytes, how);
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
