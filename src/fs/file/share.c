#include "fs/file/share.h"

#include "base/clock.h"
#include "base/meter.h"
#include "fs/file/load.h"
#include "fs/inode/caps.h"
#include "fs/inode/seen.h"
#include "fs/ops/notify.h"

/*
 * A read reloads the frame at most SHARED_TRIES times before it goes on with what it has: a writer
 * that commits all the time would keep it from ever reading. It waits at most MISSED_MOST times for
 * the lock again because another writer has taken that before the frame was reloaded.
 */
#define SHARED_TRIES 3
#define MISSED_MOST 64

/* How long a reload of an array waits for reads of it to end. */
#define READS_END_NS (10 * CLOCK_MS)

void file_revalidate(struct file *f)
{
	struct inode *n = f->inode;
	struct stat st;

	if (stat_fd(f->fd, &st) < 0)
		return;
	bool same = seen_is_same(n, &st);
	bool untouched = same && same_time(n->seen.st.st_ctim, st.st_ctim);
	n->sizes.known = false; /* until the file is closed */
	if (!n->cache_owner || n->seen.unsure || !untouched)
		n->cache_owner = cache_new_owner(f->fs->cache);
	f->cache_owner = n->cache_owner;
	/* The kernel has the old size, as no lookup has noticed the change: the next one will. */
	n->kernel.mistaken |= seen_any(n) && !same;
	n->latest &= same; /* another program may have left roots of any kind there */
	seen_note(n, &st);
	n->seen.unread = false;
}

/*
 * Takes the gate, to reload or to detach. That is under n->lock, so it cannot wait for the gate.
 * GATE_TAKEN: its holder may commit, or has changes. While the file is only read that cannot be:
 * then a reader's fsync may have the gate, for as long as the disk takes, and this goes on without
 * it.
 */
enum gate { GATE_TAKEN, GATE_OURS, GATE_WITHOUT };

static enum gate enter_gate(struct file *f)
{
	if (pthread_rwlock_trywrlock(&f->gate) == 0)
		return GATE_OURS;
	return f->writable ? GATE_TAKEN : GATE_WITHOUT;
}

static void leave_gate(struct file *f, enum gate gate)
{
	if (gate == GATE_OURS)
		pthread_rwlock_unlock(&f->gate);
}

bool file_detach(struct file *f)
{
	enum gate gate = enter_gate(f);
	bool clean = gate != GATE_TAKEN && !file_changed(f);

	if (clean)
		inode_detach(f->fs->inodes, f->inode);
	leave_gate(f, gate);
	return clean;
}

int file_look_sidecar(struct file *f)
{
	struct named by;

	int rc = inode_enter_name(f->fs->inodes, f->inode, &by);
	if (rc == -ESTALE)
		return 0; /* a file without a name has no sidecar */
	if (rc < 0)
		return backing_is_temporary(rc) ? rc : 0;
	rc = sidecar_look(&f->sidecar, by.dirfd, by.name);
	inode_leave_name(f->fs->inodes, &by);
	return rc;
}

/* `told`: it is known that the file has changed. The lock is held. */
static bool was_changed(struct file *f, const struct stat *st, bool told)
{
	if (told)
		return true;
	if (!seen_is_foreign(f->inode, st))
		return false;
	bool same = seen_is_same(f->inode, st) && frame_compare_root(f->frame) == ROOT_SAME;
	if (same) /* its attributes were too young to prove that */
		seen_note(f->inode, st);
	return !same;
}

/* 1, or a failure. The lock is held. */
static int reopen_changed(struct file *f, const struct stat *st, int how)
{
	struct inode *n = f->inode;
	int rc = file_load_again(f);

	f->lost &= rc < 0;
	n->cache_owner = f->cache_owner;
	bool judged = rc >= 0 || rc == -EBADMSG || rc == -ENOTSUP;
	if (judged) /* otherwise the disk has failed, and the next reload tries again */
		seen_note(n, st);
	n->seen.unread = rc < 0;
	if (rc >= 0)
		sidecar_seen(&f->sidecar, how);
	n->kernel.mistaken = true;
	caps_forget(n);
	return rc < 0 ? rc : 1;
}

/*
 * Takes the lock for a reload. -EBUSY: an array is being read, which may take minutes, and anyone
 * who looks at the file would have to wait as well. Most reads end within READS_END_NS.
 *
 * Uses the wall clock, since the thread sanitizer does not know pthread_rwlock_clockwrlock, and
 * would see races in what the lock protects. If the clock is set back just then, this waits until
 * the reads end.
 */
static int lock_to_reload(struct file *f)
{
	struct timespec end = clock_timespec(clock_read(CLOCK_REALTIME) + READS_END_NS);

	if (!f->npy) {
		pthread_rwlock_wrlock(&f->lock);
		return 0;
	}
	return pthread_rwlock_timedwrlock(&f->lock, &end) == 0 ? 0 : -EBUSY;
}

/* `sure`: it has certainly changed. After enter_gate, so no data of ours is in flight. */
static int reload_gated(struct file *f, bool sure)
{
	struct inode *n = f->inode;
	struct stat st;

	if (inode_kind(n) == NODE_SPARSE)
		return 0;
	int how = sidecar_enter_soon(&f->sidecar);
	TRY(how);
	int rc = stat_fd(f->fd, &st);
	if (lock_to_reload(f) < 0) {
		sidecar_leave(&f->sidecar, how);
		return -EBUSY;
	}
	uint64_t old = file_size_locked(f);
	bool told = sure || f->lost || sidecar_changed(&f->sidecar, how);
	if (rc >= 0 && was_changed(f, &st, told) && (f->lost || !file_changed_locked(f)))
		rc = reopen_changed(f, &st, how);
	uint64_t size = file_size_locked(f);
	pthread_rwlock_unlock(&f->lock);
	sidecar_leave(&f->sidecar, how);
	if (rc > 0) {
		notify_changed(f->fs->notify, n, size > old || n->kernel.untold ? size : 0);
		n->kernel.untold = false;
	}
	return rc;
}

/* True: nothing of ours waits for a commit, and the root on the disk is not what we left there. */
static bool has_other_root(struct file *f)
{
	pthread_rwlock_rdlock(&f->lock);
	bool other = !file_changed_locked(f) && frame_compare_root(f->frame) == ROOT_OTHER;
	pthread_rwlock_unlock(&f->lock);
	return other;
}

/*
 * True: it was changed, and not by a commit of ours. While one is going on, or gaps are being
 * closed, the times of the file do not tell. Under n->lock.
 */
static bool looks_foreign(struct file *f)
{
	struct inode *n = f->inode;
	struct stat st;

	if (stat_fd(f->fd, &st) < 0)
		return false;
	return n->times.pending ? !seen_is_same(n, &st) && has_other_root(f)
				: seen_is_foreign(n, &st);
}

int file_reload_inode_locked(struct file *f)
{
	enum gate gate = enter_gate(f);

	if (gate == GATE_TAKEN)
		return looks_foreign(f) ? -EAGAIN : 0;
	int rc = reload_gated(f, false);
	leave_gate(f, gate);
	return rc;
}

/* With no lock held: whoever has the gate may be syncing, for as long as the disk takes. */
static void wait_for_gate(struct file *f)
{
	if (pthread_rwlock_trywrlock(&f->gate) == 0)
		return;
	bool relieved = relief_begin(&f->fs->relief);
	pthread_rwlock_wrlock(&f->gate);
	relief_end(&f->fs->relief, relieved);
}

void file_reload_in_turn(struct file *f)
{
	wait_for_gate(f);
	pthread_mutex_lock(&f->inode->lock);
	IGNORE(reload_gated(f, false)); /* whoever looks next is told */
	pthread_mutex_unlock(&f->inode->lock);
	pthread_rwlock_unlock(&f->gate);
}

int file_reload_changed(struct file *f)
{
	pthread_mutex_lock(&f->inode->lock);
	enum gate gate = enter_gate(f);
	int rc = gate == GATE_TAKEN ? 0 : reload_gated(f, true);
	leave_gate(f, gate);
	pthread_mutex_unlock(&f->inode->lock);
	return rc;
}

/* A detached inode is no longer looked up, so that only its readers can notice a change. */
static void watch_detached(struct file *f)
{
	struct inode *n = f->inode;
	struct stat st;

	if (!n->detached || f->fd < 0 || stat_fd(f->fd, &st) < 0)
		return;
	pthread_mutex_lock(&n->lock);
	if (seen_is_foreign(n, &st))
		IGNORE(file_reload_inode_locked(f)); /* the next read tries again */
	pthread_mutex_unlock(&n->lock);
}

int file_enter_shared(struct file *f)
{
	watch_detached(f);
	for (int tries = 0, missed = 0;;) {
		int how = sidecar_enter(&f->sidecar);
		if (tries == SHARED_TRIES || !sidecar_changed(&f->sidecar, how))
			return how;
		sidecar_leave(&f->sidecar, how);
		int rc = file_reload_changed(f);
		if (rc == -EAGAIN && ++missed < MISSED_MOST)
			continue; /* another writer has taken the lock in between */
		/* it has changes of ours, or cannot be read: go on with what we have */
		tries = rc > 0 ? tries + 1 : SHARED_TRIES;
	}
}

void file_catch_up(struct file *f)
{
	if (!f->sidecar.there)
		return;
	int how = sidecar_enter_soon(&f->sidecar); /* if it fails: at the next change */
	bool changed = sidecar_changed(&f->sidecar, how);
	sidecar_leave(&f->sidecar, how);
	if (changed)
		IGNORE(file_reload_changed(f)); /* else the commit will be refused */
}

/*
 * How many threads may wait for half a minute: with more, a lock that is held for long would keep
 * the kernel's requests for other files waiting. The other threads wait a little, too: most
 * programs hold the lock only for a moment, and a writer that goes on without it loses what all of
 * them write.
 */
#define WAITING_WRITERS 4
#define MORE_WAIT_NS (2 * CLOCK_SECOND)

void file_wait_for_others(struct file *f)
{
	if (!f->sidecar.there)
		return;
	bool more = atomic_fetch_add(&f->waiting_writers, 1) >= WAITING_WRITERS;
	if (file_changed(f))
		; /* it does not wait: share.h */
	else if (more)
		sidecar_wait_some(&f->sidecar, SIDECAR_STORE, MORE_WAIT_NS);
	else
		IGNORE(sidecar_wait(&f->sidecar, SIDECAR_STORE));
	atomic_fetch_sub(&f->waiting_writers, 1);
}

/*
 * Enters the sidecar to write, by one of its functions. -ESTALE: it was left again, since another
 * program has held it exclusively after the frame was read. What our changes build on may be gone,
 * even where the root looks the same, if that is the other program's: such a root does not show
 * that chunks were replaced in place.
 */
static int enter(struct file *f, int (*by)(struct sidecar *))
{
	TRY(file_look_sidecar(f));
	int how = by(&f->sidecar);
	if (!sidecar_changed(&f->sidecar, how) || file_compare_root(f) == ROOT_SAME)
		return how;
	sidecar_leave(&f->sidecar, how);
	return -ESTALE;
}

int file_enter_store(struct file *f)
{
	return enter(f, sidecar_enter_store);
}

int file_try_enter_store(struct file *f)
{
	return enter(f, sidecar_try_enter_store);
}

int file_enter_commit(struct file *f)
{
	int how = enter(f, sidecar_enter_alone);

	if (how == -ESTALE)
		caps_forget(f->inode);
	/* another program may have had the lock, but has written nothing */
	sidecar_seen(&f->sidecar, how);
	return how;
}

bool file_is_overtaken(struct file *f)
{
	struct inode *n = f->inode;

	pthread_mutex_lock(&n->lock);
	bool same = n->times.pending || seen_holds(n, f->fd);
	pthread_mutex_unlock(&n->lock);
	return !same || file_compare_root(f) == ROOT_OTHER;
}

bool file_is_left_behind(struct file *f)
{
	if (!f->inode->detached)
		return false;
	pthread_rwlock_rdlock(&f->lock);
	bool old = frame_suspect(f->frame) || frame_recovered(f->frame);
	bool behind = old && !file_changed_locked(f);
	pthread_rwlock_unlock(&f->lock);
	return behind;
}

/* Limits, in case the lock is free for a moment after each wait: see file_lock_comes. */
#define LOCK_WAITS 8
#define LOCK_WAITS_NS (30 * CLOCK_SECOND)

bool file_lock_comes(struct file *f, int rc, struct lock_wait *w)
{
	if (rc != -EAGAIN)
		return false;
	uint64_t now = meter_now();
	if (!w->since)
		w->since = now;
	if (++w->waits > LOCK_WAITS && (!f->sidecar.there || now - w->since > LOCK_WAITS_NS))
		return false;
	return sidecar_wait(&f->sidecar, w->what);
}
