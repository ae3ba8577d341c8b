/*
 * Creating files on behalf of the process that asked for them, so that they have the right owner
 * from the first moment. A file that is chowned afterwards would belong to root for an instant; and
 * if that were done by name, another file that was moved there meanwhile might be given away.
 */
#ifndef FS_BACKING_CALLER_H
#define FS_BACKING_CALLER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The process that sent a request, and whether this thread has its identity, between enter and
 * leave.
 */
struct caller {
	uid_t uid;
	gid_t gid;
	mode_t umask;
	bool worn; /* uid and gid are in effect */
};

/*
 * From here on, what this thread creates is subject to the caller's umask, which a directory's
 * default ACL overrides; and gets the caller's uid and gid, if we are root (`is_root`) and the
 * caller is not. The thread keeps that umask afterwards; the next caller sets its own.
 */
void caller_enter(struct caller *c, bool is_root);
void caller_leave(struct caller *c);

/*
 * Between enter and leave: lets the thread change any directory, even a sticky one, since the
 * kernel has decided that the caller may. The kernel knows the caller's supplementary groups and
 * capabilities, which this thread does not have. False: we lack that right ourselves, or this
 * thread does not have the caller's identity.
 */
bool caller_override(const struct caller *c);

/*
 * True: this thread has a umask of its own. False: a sandbox does not allow that; then the kernel
 * has to apply the caller's.
 */
bool caller_own_umask(void);

#endif
