/*
 * A frame that other programs change too: by replacing, cutting or lengthening the backing file, or
 * as users of the reference library with its locking on (sidecar.h). DESIGN.md says what shows that
 * one did ("Other programs in the backing directory"). From then on the open file is one of these:
 *
 *   overtaken    nobody has noticed it yet                               file_is_overtaken
 *   reloaded     it had no changes of ours, and has read the new frame   file_reload_*
 *   refused      it has changes, and there is a sidecar: nothing is      file_enter_*: -ESTALE
 *                stored or committed
 *   detached     it had none, and only goes on reading; a lookup of the  file_detach
 *                name gets another inode
 *   left behind  detached, and owes a sync or a header to the old frame  file_is_left_behind
 *
 * Without a sidecar, a file with changes goes on: its commit replaces the other program's root.
 */
#ifndef FS_FILE_SHARE_H
#define FS_FILE_SHARE_H

#include "fs/file/file.h"

/*
 * For a file that is being opened: cached blocks outlive a close, but not a change by another
 * program. Under n->lock.
 */
void file_revalidate(struct file *f);

/*
 * inode_detach, unless changes of ours wait to be written to the file; from then on the file can
 * only be read. False: not possible now. Under n->lock.
 */
NODISCARD bool file_detach(struct file *f);

/*
 * Looks for the sidecar of an open frame. After a failure there may be one that we do not know of,
 * and nothing may be written. The caller may hold the gate or n->lock, but none of the locks after
 * them in the order of fs.h.
 */
NODISCARD int file_look_sidecar(struct file *f);

/*
 * Reloads a file if another program has changed it, by its attributes or its sidecar, and it has no
 * changes of ours. 1: it was reloaded, and the kernel is being told. -EAGAIN: another program has
 * the lock, or another thread the gate. -EBUSY: it is an array that is being read; try again later.
 * Under n->lock.
 */
NODISCARD int file_reload_inode_locked(struct file *f);

/* The same, but waits for the gate, with no lock held. A failure shows at the next look. */
void file_reload_in_turn(struct file *f);

/*
 * The same for a file that has certainly changed. 0 if another thread has the gate. Takes n->lock.
 */
NODISCARD int file_reload_changed(struct file *f);

/*
 * Call before every read, and sidecar_leave after it, with what this returned (here and below): an
 * enum sidecar_entered, or an error. In between, no program that takes part in locking writes to
 * the frame, and the frame in memory is the newest. Waits for the lock, with none of ours held; if
 * that takes too long, goes on without it (sidecar.h). Cannot fail.
 */
NODISCARD int file_enter_shared(struct file *f);

/*
 * Call before a change: reloads the file if another program has written to it, so that the change
 * goes on top of that. Does nothing if that program has the lock at the moment, or if the file has
 * changes of ours. Takes n->lock, and try-locks the gate.
 */
void file_catch_up(struct file *f);

/*
 * Call before a change, with no lock held: waits until no other program has the lock, without
 * taking it. Gives up after half a minute (sidecar.h). Does not wait if the file has changes of
 * ours: waiting or not, they cannot go on top of what the other program writes. While four threads
 * wait for this file, all others give up after two seconds and go on in memory: a busy writer would
 * take the threads that serve other files.
 */
void file_wait_for_others(struct file *f);

/*
 * Call before writing into free space of the frame, or giving it back to the disk, outside a
 * commit; sidecar_leave has to follow. Only the gate may be held. In between no other program
 * writes. -ESTALE: one has written since the frame was read. It may use what is free in our frame,
 * so nothing may be written, and our commit will be refused. -EAGAIN: one has the lock.
 */
NODISCARD int file_enter_store(struct file *f);

/* The same for a worker, which other files need as well: tries only once. */
NODISCARD int file_try_enter_store(struct file *f);

/*
 * True: the file is not what our last commit has left, though nobody has noticed yet: what is free
 * by our root may be in use by another program's. While times are pending, only the root tells.
 */
bool file_is_overtaken(struct file *f);

/*
 * True: a sync has failed, or the header of a recovered root is yet to be written, and another
 * program has changed the file since. The inode was detached without changes of ours (file_detach),
 * and another inode may have written to the file by now: we would commit an older root again.
 */
bool file_is_left_behind(struct file *f);

/* The waits of one call. Starts zeroed, except for `what`. */
struct lock_wait {
	enum sidecar_for what;
	unsigned waits; /* so far                            */
	uint64_t since; /* meter_now, at the first; 0: none  */
};

/*
 * For a caller that wants the file stored, after these functions or file_enter_commit have failed
 * with `rc`; no lock is held. If that is -EAGAIN, waits for the other program's lock. True: try
 * again. False: it failed for another reason, or the lock did not become free in time.
 */
NODISCARD bool file_lock_comes(struct file *f, int rc, struct lock_wait *w);

/*
 * Call before every commit; sidecar_leave has to follow. -ESTALE: another program wrote while we
 * had changes. -EAGAIN: one has the lock.
 */
NODISCARD int file_enter_commit(struct file *f);

#endif
