/*
 * Creating files for whoever asked for them, so that they have that owner from the first moment.
 * A file that is given away afterwards would be root's for an instant, and by its name another one
 * could be given away that was moved there meanwhile.
 */
#ifndef FS_BACKING_CALLER_H
#define FS_BACKING_CALLER_H

#include <stdbool.h>
#include <sys/types.h>

/* Who sent a request, and what this thread wears of it between enter and leave. */
struct caller {
	uid_t uid;
	gid_t gid;
	mode_t umask;
	bool worn; /* uid and gid are in effect */
};

/*
 * From here on what this thread creates has the caller's uid and gid, if we are root (`is_root`)
 * and the caller is not, and the caller's umask, which a directory with a default ACL replaces.
 * The thread keeps that umask; the next caller brings its own.
 */
void caller_enter(struct caller *c, bool is_root);
void caller_leave(struct caller *c);

/*
 * Between enter and leave: the thread may write to every directory, as the kernel has decided that
 * the caller may. It knows of supplementary groups, which this thread does not wear. False: we do
 * not have that right either, or nothing is worn.
 */
bool caller_override(const struct caller *c);

/*
 * True: this thread has a umask of its own. False where a sandbox does not let it: then the kernel
 * has to apply the caller's.
 */
bool caller_own_umask(void);

#endif
