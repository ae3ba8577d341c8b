#include "fs/file/intent_log.h"

#include "base/clock.h"
#include "base/meter.h"
#include "fs/file/share.h"
#include "fs/file/sync.h"
#include "fs/inode/caps.h"
#include "fs/inode/times.h"
#include "fs/read/read.h"
#include "fs/workspace.h"

/*
 * A commit encodes what was touched, and writes the index and checksums of all chunks. But readers
 * of the backing file see it at once. So an fsync goes to the log only if a commit would cost much
 * more: if MANY_RANGES ranges were touched, if the index has MANY_CHUNKS entries, or after
 * QUICK_ROW fsyncs in a row, each within QUICK_NS of the one before.
 */
#define MANY_RANGES 48u
#define MANY_CHUNKS 8192u
#define QUICK_ROW 16u
#define QUICK_NS (50 * CLOCK_MS)

/* A larger record buffer is not kept for the thread's next fsync. */
#define RECORD_KEPT (1u << 20)

bool file_in_log(struct file *f)
{
	return intent_has(f->fs->intent, &f->unsynced.mark);
}

/*
 * True: a record in the log costs less than a commit. Not if everything is committed already: that
 * only takes a sync, and since the file is not on the list of those to commit, its record would
 * stay needed.
 */
static bool pays(const struct file *f)
{
	const struct file_unsynced *u = &f->unsynced;

	return file_changed_locked(f) &&
	       (u->touched.ranges.n >= MANY_RANGES || frame_nchunks(f->frame) >= MANY_CHUNKS ||
		u->quick >= QUICK_ROW);
}

/*
 * The inode number by which a record names the frame, on the device of the backing directory; 0:
 * replay would not find it. On overlayfs, opening a file for writing may have changed the number
 * with which it was looked up.
 */
static uint64_t number_for_replay(const struct file *f)
{
	struct inodes *inodes = f->fs->inodes;
	struct stat st;

	bool finds = stat_fd(f->fd, &st) == 0 && st.st_dev == inodes_root(inodes)->key.dev &&
		     inode_is_number(inodes, f->inode, &st) &&
		     !inode_is_deeper(inodes, f->inode, 1 + INTENT_DEEPEST);
	return finds ? st.st_ino : 0;
}

/*
 * True: *roots has the numbers of both roots, so that a record can build on the durable one. Makes
 * the newest root durable if none is known to be.
 */
static bool has_base(struct file *f, struct frame_roots *roots)
{
	if (!frame_info(f->frame)->nbytes || frame_suspect(f->frame))
		return false;
	*roots = frame_roots(f->frame);
	if (roots->newest && !roots->durable) {
		/*
		 * The sync lets gaps be punched, which removes capabilities. The commit that stores
		 * the changes of this record in the frame restores them.
		 */
		caps_note(f->inode, f->fd);
		if (frame_sync_root(f->frame) == 0)
			*roots = frame_roots(f->frame);
	}
	return roots->newest && roots->durable;
}

static int read_touched(struct file *f, struct span bytes)
{
	const struct ranges *t = &f->unsynced.touched.ranges;

	for (uint32_t i = 0; i < t->n; i++) {
		struct byte_range r = ranges_at(t, i);
		TRY(file_read_locked(f, r.lo, span_of(bytes.p, r.hi - r.lo)));
		bytes = span_from(bytes, r.hi - r.lo);
	}
	return 0;
}

/* Appends a record of what was touched. The lock is held for writing. */
static int append(struct file *f, uint64_t number, const struct timespec *mtime,
		  const struct frame_roots *roots)
{
	struct workspace *ws = workspace_get();
	struct intent *log = f->fs->intent;
	struct file_unsynced *u = &f->unsynced;
	struct span bytes;

	if (!ws)
		return -ENOMEM;
	struct intent_record r = {.directory = inodes_root(f->fs->inodes)->key.ino,
				  .inode = number,
				  .birth = backing_birth(f->fd),
				  .roots = *roots,
				  .size = frame_size(f->frame),
				  .mtime = *mtime};
	int rc = intent_record_begin(&ws->record, &u->touched.ranges, &bytes);
	if (rc >= 0)
		rc = read_touched(f, bytes);
	if (rc >= 0) {
		intent_record_end(&ws->record, &r);
		rc = intent_append(log, buf_span(&ws->record), &u->mark);
	}
	if (rc >= 0)
		touched_clear(&u->touched);
	buf_trim(&ws->record, RECORD_KEPT);
	return rc;
}

/* False: not possible now, or not worthwhile. */
static bool try_append(struct file *f, const struct timespec *mtime)
{
	uint64_t number = pays(f) ? number_for_replay(f) : 0;
	struct frame_roots roots;

	return number && !f->sidecar.there && has_base(f, &roots) &&
	       append(f, number, mtime, &roots) >= 0;
}

/*
 * The end of what has to be durable now, in the log; 0: it is not there. The lock is held for
 * writing.
 */
static uint64_t get_into_log(struct file *f, const struct timespec *mtime)
{
	struct file_unsynced *u = &f->unsynced;

	u->quick = meter_now() - u->synced_at < QUICK_NS ? u->quick + 1 : 0;
	if (f->lost || u->touched.whole)
		return 0;
	bool logged = u->touched.ranges.n ? try_append(f, mtime) : file_in_log(f);
	return logged ? u->mark.end : 0;
}

bool file_sync_by_log(struct file *f)
{
	if (!f->fs->intent || !f->writable)
		return false;
	pthread_rwlock_rdlock(&f->gate);
	struct timespec mtime = times_mtime(f->inode, f->fd);
	/* programs that share the frame should see it as of the last fsync */
	bool looked = file_look_sidecar(f) >= 0;
	pthread_rwlock_wrlock(&f->lock);
	uint64_t end = looked ? get_into_log(f, &mtime) : 0;
	pthread_rwlock_unlock(&f->lock);
	pthread_rwlock_unlock(&f->gate);
	if (!end)
		return false;
	if (intent_sync(f->fs->intent, end) == 0) {
		f->unsynced.synced_at = meter_now();
		return true;
	}
	pthread_rwlock_wrlock(&f->lock);
	touched_whole(&f->unsynced.touched);
	pthread_rwlock_unlock(&f->lock);
	return false;
}

void file_log_committed(struct file *f)
{
	f->unsynced.synced_at = meter_now();
	intent_done(f->fs->intent, &f->unsynced.mark);
}

int file_log_close(struct file *f)
{
	struct intent *log = f->fs->intent;
	bool owed = true;

	pthread_rwlock_wrlock(&f->gate);
	if (file_in_log(f) && !file_has_a_name(f))
		intent_removed(log, &f->unsynced.mark);
	if (file_in_log(f) && !file_changed(f)) {
		owed = !frame_suspect(f->frame) && intent_owe(log, &f->unsynced.mark, f->fd);
		if (owed)
			uncommitted_remove(f);
	}
	pthread_rwlock_unlock(&f->gate);
	return owed ? 0 : file_sync(f, COMMIT_SYNC);
}
