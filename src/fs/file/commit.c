#include "fs/file/commit.h"

#include "fs/dirty/flush.h"
#include "fs/file/intent_log.h"
#include "fs/file/share.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

/* Bytes moved in one step, during which no other thread can use the file. */
#define COMPACT_STEP (4u << 20)

/* Sets the pipeline that the header names: that of the first data, which was not known before. */
static void set_header_pipeline(struct file *f)
{
	struct pipeline p;

	if (policy_first_choice(&f->policy, &p))
		frame_set_pipeline(f->frame, &p);
}

void file_note_failed_sync(struct file *f)
{
	pthread_rwlock_wrlock(&f->lock);
	if (f->writable)
		frame_set_suspect(f->frame); /* the bytes that are lost may be the frame's */
	else
		f->fs->sync_failed = true;
	pthread_rwlock_unlock(&f->lock);
}

int file_sync_inode(struct file *f)
{
	uint32_t changes = f->inode->attr_changes;

	if (fsync(f->fd) < 0) {
		int rc = -errno;
		file_note_failed_sync(f);
		return rc;
	}
	f->inode->attr_synced = changes;
	return 0;
}

bool file_put_caps_back(struct file *f)
{
	int rc = caps_put_back(f->inode, f->fd);
	char text[ERR_TEXT_MAX];

	caps_forget(f->inode);
	if (rc < 0)
		file_log_err(f, "lost its file capabilities: %s", err_text(rc, text));
	return rc > 0;
}

/*
 * A commit's fdatasync makes the file's length durable, and with it, in the journalling file
 * systems that we know, what came before that: the name of a file made here. An empty file got its
 * length, that of an empty frame, before its name.
 */
static void name_synced(struct file *f)
{
	struct inode *n = f->inode;

	if (n->made && n->attr_synced == 0 && frame_size(f->frame) > 0)
		n->attr_synced = 1;
}

/*
 * Call right before the backing file is changed. Drops the note if another program has replaced the
 * root since. The lock is held for writing.
 */
static void note_own_caps(struct file *f)
{
	caps_note(f->inode, f->fd);
	if (caps_noted(f->inode) && frame_compare_root(f->frame) == ROOT_OTHER)
		caps_forget(f->inode);
}

/*
 * The first chunk beyond the last full commit that lacks bytes: they have not been stored yet, or
 * the kernel has not sent them. UINT32_MAX: there is none.
 */
static uint32_t first_missing(const struct file *f)
{
	uint64_t kept = frame_kept(f->frame), gap = ranges_first(&f->arrivals.gaps);

	if (frame_size(f->frame) <= kept)
		return UINT32_MAX;
	uint32_t n = dirty_first_unshown(f, range_chunk(kept, f->chunk_size));
	return gap == UINT64_MAX ? n : (uint32_t)min_u64(n, range_chunk(gap, f->chunk_size));
}

/*
 * True: a partial commit cannot be made. Chunks have to be stored before it; or it cannot end
 * before the first chunk that lacks bytes, since the last full one has shown its first bytes.
 */
static bool is_held_up(const struct file *f)
{
	uint32_t n = first_missing(f);
	return dirty_holds_up(&f->dirty) ||
	       (n != UINT32_MAX && (uint64_t)n * f->chunk_size < frame_kept(f->frame) &&
		frame_slot(f->frame, n) == SLOT_STORED);
}

/*
 * A partial commit ends the file before the first chunk that lacks bytes. But it does not make the
 * file empty while the log has bytes of it: beside a new root without any bytes, their record would
 * count as older.
 */
static int commit_part(struct file *f)
{
	uint32_t missing = first_missing(f);
	if (frame_kept(f->frame) == 0 && missing == 0 && file_in_log(f))
		missing = UINT32_MAX;
	return frame_commit_part(f->frame, missing);
}

/*
 * True: a commit might write to the backing file. Takes the lock, since workers go on storing
 * chunks during a partial commit.
 */
static bool might_write(struct file *f, enum durability how)
{
	pthread_rwlock_rdlock(&f->lock);
	bool might = file_changed_locked(f) || frame_writes(f->frame, how);
	pthread_rwlock_unlock(&f->lock);
	return might;
}

/*
 * True: the file may be written to though nobody has changed it. That takes away mtime, set-id bits
 * and capabilities, which a daemon that is not root may be unable to restore. Where a commit of
 * ours did so before, no harm is left to do.
 */
static bool is_harmless(const struct file *f)
{
	struct stat st;

	return f->fs->backing.is_root || frame_latest(f->frame) ||
	       (stat_fd(f->fd, &st) == 0 && st.st_uid == geteuid() &&
		!(st.st_mode & (S_ISUID | S_ISGID)) &&
		fd_getxattr(f->fd, CAPS_XATTR, span_of(NULL, 0)) < 0);
}

bool file_wants_vouch(const struct file *f)
{
	return frame_unproven(f->frame) && !f->inode->detached && !f->sidecar.there &&
	       is_harmless(f);
}

bool file_wants_header(const struct file *f)
{
	return frame_recovered(f->frame) && is_harmless(f);
}

/* `writes`: so does frame_commit. 1: the root was then marked as durable, which wrote as well. */
static int commit_all(struct file *f, enum durability how, bool writes)
{
	int rc = frame_commit(f->frame, how);

	/* Also if it failed: what is kept may be all of it by now. */
	arrivals_commit(&f->arrivals, frame_kept(f->frame));
	if (rc < 0 || how != COMMIT_SYNC)
		return rc;
	if (file_wants_vouch(f))
		rc = frame_vouch(f->frame);
	TRY(rc);
	touched_clear(&f->unsynced.touched);
	if (writes || rc)
		name_synced(f);
	return rc;
}

/* What needs the lock. 1: the backing file was written to. */
static int commit_locked(struct file *f, enum durability how)
{
	bool held_up = how == COMMIT_PART && is_held_up(f);
	int rc = 0;

	if (frame_dirty(f->frame) && !held_up)
		set_header_pipeline(f);
	note_own_caps(f);
	/* Held up, too: workers may have stored chunks. */
	bool writes = frame_writes(f->frame, how);
	if (!held_up)
		rc = how == COMMIT_PART ? commit_part(f) : commit_all(f, how, writes);
	f->wants_commit = false;
	return rc < 0 ? rc : rc || writes;
}

static int commit(struct file *f, enum durability how)
{
	int entered = SIDECAR_NONE;

	intent_retry_aside(f->fs->intent);
	if (might_write(f, how))
		entered = file_enter_commit(f);
	else if (how == COMMIT_SYNC)
		TRY(file_look_sidecar(f)); /* for vouch */
	TRY(entered);
	pthread_rwlock_wrlock(&f->lock);
	int wrote = commit_locked(f, how);
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, entered);
	TRY(wrote);
	if (how == COMMIT_PART) /* workers go on writing to the file: they will be restored again */
		IGNORE(caps_put_back(f->inode, f->fd));
	else if (file_put_caps_back(f) && how == COMMIT_SYNC)
		TRY(file_sync_inode(f)); /* the commit's own sync came too early for them */
	if (wrote)
		times_committed(f->inode, f->fd);
	else if (how != COMMIT_PART) /* nothing of ours has changed the file */
		times_release(f->inode, f->fd);
	return 0;
}

int file_commit_gated(struct file *f, enum durability how)
{
	assert(how != COMMIT_PART);
	return commit(f, how);
}

int file_commit_part_gated(struct file *f)
{
	if (f->replaying)
		return 0;
	times_hold(f->inode, f->fd);
	TRY(commit(f, COMMIT_PART));
	times_hold(f->inode, f->fd);
	return 0;
}

/*
 * Stores what a commit may need before it. Held up: the commit leaves out what fails. Suspect:
 * chunks in flight may be those whose sync failed.
 */
static void store_before_part(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool held_up = dirty_holds_up(&f->dirty), suspect = frame_suspect(f->frame);
	pthread_rwlock_unlock(&f->lock);
	if (held_up)
		(void)flush_submit_batch(f, FLUSH_ALL);
	if (held_up || suspect)
		IGNORE(flush_wait(f));
}

int file_commit_part(struct file *f)
{
	int rc = 0;

	pthread_rwlock_wrlock(&f->gate);
	if (f->wants_commit && !f->lost) {
		store_before_part(f);
		rc = file_commit_part_gated(f);
	}
	pthread_rwlock_unlock(&f->gate);
	return rc;
}

/*
 * Makes the root on disk durable. Space that waits for that is free afterwards, and is returned to
 * the disk.
 */
static int sync_root(struct file *f)
{
	int how = file_enter_store(f);

	TRY(how);
	pthread_rwlock_wrlock(&f->lock);
	note_own_caps(f);
	int rc = frame_sync_root(f->frame);
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	return rc;
}

/* Commits and syncs: all space that waits for a durable root is free afterwards. */
static int free_waiting(struct file *f)
{
	TRY(file_commit_part_gated(f));
	return sync_root(f);
}

/*
 * First only a sync, since the commit may need the very space that waits for the root before it.
 * After a failed sync no root may point to what it has lost; that is left to the commit. A commit
 * that would free nothing is not made: it would only show zeros where chunks found no room.
 */
int file_make_room(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool waits = frame_waits(f->frame), suspect = frame_suspect(f->frame);
	pthread_rwlock_unlock(&f->lock);
	int rc = suspect ? 0 : sync_root(f);
	return rc < 0 || !waits ? rc : free_waiting(f);
}

bool file_set_wary_gated(struct file *f, bool wary)
{
	pthread_rwlock_wrlock(&f->lock);
	bool was = frame_set_wary(f->frame, wary);
	pthread_rwlock_unlock(&f->lock);
	return was;
}

int file_compact_gated(struct file *f)
{
	if (file_is_overtaken(f))
		return -ESTALE;
	TRY(free_waiting(f));
	int how = file_enter_store(f);
	TRY(how);
	pthread_rwlock_wrlock(&f->lock);
	note_own_caps(f);
	bool other = frame_compare_root(f->frame) == ROOT_OTHER; /* the sync may have taken long */
	int rc = other ? -ESTALE : frame_compact(f->frame, COMPACT_STEP);
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	if (rc > 0)
		TRY(free_waiting(f));
	return rc;
}

/* The gate alone does not keep workers from changing the frame: they store what was submitted. */
bool file_wants_compact(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool wants = frame_wants_compact(f->frame);
	pthread_rwlock_unlock(&f->lock);
	return wants;
}
