#include "fs/session/remount.h"

#include "base/log.h"
#include "fs/session/refuse.h"
#include "fs/stats.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/xattr.h>

/* True: its daemon writes nothing, whatever the kernel would allow. */
static bool is_read_only_for_good(const char *mountpoint)
{
	return removexattr(mountpoint, "user.cframefs.none") < 0 && errno == EROFS;
}

/* False: the kernel would change the flags of whatever is mounted there, or find nothing. */
static bool is_ours(const char *mountpoint)
{
	return getxattr(mountpoint, STATS_XATTR, NULL, 0) >= 0 ||
	       (errno != ENODATA && errno != EOPNOTSUPP);
}

int remount_set_flags(const struct options *o)
{
	static const struct {
		const char *word;
		unsigned long flag;
	} flags[] = {{"ro", MS_RDONLY},	    {"nosuid", MS_NOSUID},     {"nodev", MS_NODEV},
		     {"noexec", MS_NOEXEC}, {"noatime", MS_NOATIME},   {"sync", MS_SYNCHRONOUS},
		     {"dirsync", MS_DIRSYNC}};
	unsigned long set = MS_REMOUNT;
	char *rest = o->mount_opts, *word;

	if (!is_ours(o->mountpoint))
		return refuse_busy("remount", o->mountpoint,
				   "is not the mount point of a cframefs");
	while ((word = strsep(&rest, ",")))
		for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
			if (strcmp(word, flags[i].word) == 0)
				set |= flags[i].flag;
	if (mount(NULL, o->mountpoint, NULL, set, NULL) < 0)
		return refuse_error("remount", o->mountpoint, -errno);
	if (o->own) /* mount(8) adds those of fstab, which may be no change */
		log_tell("remount '%s': %s stays as it was, like all options of the daemon: "
			 "unmount it, and mount it again",
			 o->mountpoint, o->own);
	if (set & MS_RDONLY || !is_read_only_for_good(o->mountpoint))
		return 0;
	(void)mount(NULL, o->mountpoint, NULL, set | MS_RDONLY, NULL);
	return refuse_busy("remount", o->mountpoint,
			   "was mounted read-only; unmount it, and mount it again without ro");
}
