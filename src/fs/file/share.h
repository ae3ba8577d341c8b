/*
 * A frame that other programs change too: by replacing, cutting or lengthening the backing file, or
 * as users of the reference library with its locking on (sidecar.h).
 */
#ifndef FS_FILE_SHARE_H
#define FS_FILE_SHARE_H

#include "fs/file/file.h"

/*
 * Of a file that is being opened: cached blocks outlive a close, but not a change by somebody else.
 * Under n->lock.
 */
void file_revalidate(struct file *f);

/*
 * inode_detach, provided that nothing of ours waits to be written to the file; from then on the
 * file can only be read. False: not possible now. Under n->lock.
 */
NODISCARD bool file_detach(struct file *f);

/*
 * Looks for the sidecar of an open frame. After a failure there may be one that is not known, and
 * nothing may be written. The caller may hold the gate or n->lock, and nothing that comes behind
 * them (fs.h).
 */
NODISCARD int file_look_sidecar(struct file *f);

/*
 * Reads a file anew if another program has changed it, as its attributes or its sidecar tell, and
 * it has no changes of ours. 1: it was read anew, and the kernel is being told. -EAGAIN: another
 * program has the lock. -EBUSY: it is an array that is being read; a later look may succeed. Under
 * n->lock.
 */
NODISCARD int file_reload_inode_locked(struct file *f);

/* The same for a file that has changed for certain. Takes n->lock. */
NODISCARD int file_reload_changed(struct file *f);

/*
 * To be called before every read, which sidecar_leave has to follow; here and below, that needs to
 * know how the sidecar was entered. In between, no program that takes part in locking writes to the
 * frame, and the frame in memory is the newest. Waits for the lock, with none of ours held; if that
 * takes too long, goes on without it (sidecar.h).
 */
enum sidecar_entered file_enter_shared(struct file *f);

/*
 * Before a change: reads the file anew if another program has written to it, so that the change
 * goes on top of that. Does nothing if that program has the lock just now, or if the file has
 * changes of ours. Takes n->lock, and tries the gate.
 */
void file_catch_up(struct file *f);

/*
 * Before a change, with nothing held: waits until no other program has the lock, and takes nothing.
 * Gives up after half a minute (sidecar.h). Does not wait if the file has changes of ours: they
 * cannot go on top of what the other program writes, whether that is waited for or not. While four
 * threads wait for this file, all others give up after two seconds and go on in memory: a busy
 * writer would take the threads that serve other files.
 */
void file_wait_for_others(struct file *f);

/*
 * To be called before something outside a commit fills space of the frame, or gives it back to the
 * disk; sidecar_leave has to follow. Only the gate may be held. In between no other program writes.
 * -ESTALE: one has written since the frame was read. It may use what is free in our frame, so
 * nothing may be written, and our commit will be refused. -EAGAIN: one has the lock.
 */
NODISCARD int file_enter_store(struct file *f, enum sidecar_entered *how);

/* The same for a worker, which other files need, too: tries only once. */
NODISCARD int file_try_enter_store(struct file *f, enum sidecar_entered *how);

/* One call's waits; begins with zeros but for `what`. */
struct lock_wait {
	enum sidecar_for what;
	unsigned waits; /* so far                            */
	uint64_t since; /* meter_now, at the first; 0: none  */
};

/*
 * For whoever wants the file stored, after a failure `rc` of these functions or of
 * file_enter_commit, with nothing held: if that is -EAGAIN, waits for the lock. True: try again.
 * False: it failed for another reason, or the lock was not to be had in time.
 */
NODISCARD bool file_lock_comes(struct file *f, int rc, struct lock_wait *w);

/*
 * To be called before every commit; sidecar_leave has to follow. -ESTALE: another program
 * wrote while we had changes. -EAGAIN: one has the lock.
 */
NODISCARD int file_enter_commit(struct file *f, enum sidecar_entered *how);

#endif
