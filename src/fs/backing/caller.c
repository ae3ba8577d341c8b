#include "fs/backing/caller.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool caller_own_umask(void)
{
	static _Thread_local bool own;

	if (!own)
		own = unshare(CLONE_FS) == 0;
	return own;
}

/*
 * A new thread shares the umask of the one that started it, so it always has to set its first one.
 */
static void wear_umask(mode_t mask)
{
	static _Thread_local bool wears;
	static _Thread_local mode_t worn;

	if ((!wears || worn != mask) && caller_own_umask()) {
		umask(worn = mask);
		wears = true;
	}
}

void caller_enter(struct caller *c, bool is_root)
{
	wear_umask(c->umask);
	c->worn = is_root && (c->uid != 0 || c->gid != 0);
	if (!c->worn)
		return;
	setfsgid(c->gid);
	setfsuid(c->uid);
}

/*
 * setfsuid() drops the capabilities that concern files when it leaves uid 0, and restores them on
 * return.
 */
bool caller_override(const struct caller *c)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	/* CAP_FSETID: the kernel has already cleared a setgid bit that the caller may not set. */
	const unsigned wanted =
		1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID;

	if (!c->worn || syscall(SYS_capget, &head, caps) < 0)
		return false;
	caps[0].effective |= wanted & caps[0].permitted;
	return caps[0].permitted & 1u << CAP_DAC_OVERRIDE &&
	       syscall(SYS_capset, &head, caps) == 0;
}

void caller_leave(struct caller *c)
{
	if (!c->worn)
		return;
	setfsuid(0);
	setfsgid(0);
}
