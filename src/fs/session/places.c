#include "fs/session/places.h"

#include "base/clock.h"
#include "base/log.h"
#include "fs/backing/claim.h"
#include "fs/backing/mounts.h"
#include "fs/session/refuse.h"
#include "fs/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define WAIT_STEPS 300
#define STEP_NS (CLOCK_SECOND / 10)

/*
 * A daemon that was asked to end may still have its mount for a while: a restart means the
 * directory behind it. Meanwhile the mount is not accessed, which would keep it busy.
 */
static void wait_for_old_mount(const struct options *o)
{
	struct statx stx;

	if (o->nonempty || statx(AT_FDCWD, o->mountpoint, AT_STATX_DONT_SYNC, 0, &stx) < 0 ||
	    !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return;
	dev_t dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	for (int i = 0; i < WAIT_STEPS && claim_is_ending(o->backing, dev); i++)
		clock_sleep(STEP_NS);
}

/*
 * Warns of a backing directory inside another mount, such as one that is mounted over itself: the
 * frames would be compressed again, below. That is never what the user wants.
 */
static void tell_mount_of(const struct options *o, dev_t backing)
{
	struct mounts m;
	struct mount_line line;

	if (!mounts_open(&m))
		return;
	if (mounts_find_fuse(&m, backing, &line) &&
	    getxattr(line.at, STATS_XATTR, NULL, 0) >= 0)
		log_tell("backing directory '%s': is in the mount '%s' of another cframefs: what "
			 "is written is compressed twice",
			 o->backing, line.at);
	mounts_close(&m);
}

/*
 * An autofs mount there waits for a mount: ours, if fstab says x-systemd.automount. Only a process
 * of the automounter's group can mount over it, see daemon_answer.
 */
static bool has_mount(const char *mountpoint, const struct statx *stx)
{
	struct statfs fs;

	return stx->stx_attributes & STATX_ATTR_MOUNT_ROOT &&
	       (statfs(mountpoint, &fs) < 0 || fs.f_type != AUTOFS_SUPER_MAGIC);
}

static int check_backing(const struct options *o, struct stat *st)
{
	if (stat(o->backing, st) < 0)
		return refuse_error("backing directory", o->backing, -errno);
	if (!S_ISDIR(st->st_mode))
		return refuse_error("backing directory", o->backing, -ENOTDIR);
	if (access(o->backing, R_OK | X_OK) < 0)
		return refuse_error("backing directory", o->backing, -errno);
	if (access("/proc/self/fd", X_OK) < 0)
		return refuse_busy("directory", "/proc", "is not mounted, and cframefs needs it");
	return 0;
}

int places_check(const struct options *o)
{
	struct statx stx;
	struct stat st;

	wait_for_old_mount(o);
	TRY(check_backing(o, &st));
	if (statx(AT_FDCWD, o->mountpoint, 0, STATX_BASIC_STATS, &stx) < 0)
		return refuse_error("mount point", o->mountpoint, -errno);
	if (!S_ISDIR(stx.stx_mode))
		return refuse_error("mount point", o->mountpoint, -ENOTDIR);
	if (!o->nonempty && has_mount(o->mountpoint, &stx))
		return refuse_busy("mount point", o->mountpoint,
				   "a file system is mounted there already; umount it first");
	/*
	 * If each were mounted on the other, neither could be unmounted: each would keep the other
	 * busy.
	 */
	if (claim_is_shown(o->mountpoint, st.st_dev))
		return refuse_busy("backing directory", o->backing,
				   "shows the mount point's own files; BACKING comes first");
	tell_mount_of(o, st.st_dev);
	return 0;
}

int places_judge_writable(struct options *o)
{
	if (o->read_only || access(o->backing, W_OK) == 0)
		return 0;
	if (errno == EROFS) {
		log_tell("backing directory '%s': its file system is read-only, and so is this "
			 "mount (-o ro)",
			 o->backing);
		return options_set_read_only(o);
	}
	log_tell("backing directory '%s': %s: no file can be made or removed in it; its owner can "
		 "allow that (chmod)",
		 o->backing, strerror(errno));
	return 0;
}

int places_check_frames(const struct options *o)
{
	struct stat st;

	TRY(check_backing(o, &st));
	if (access(o->backing, W_OK) < 0 && errno == EROFS)
		return refuse_error("backing directory", o->backing, -EROFS);
	if (getxattr(o->backing, STATS_XATTR, NULL, 0) >= 0)
		return refuse_busy("backing directory", o->backing,
				   "is the mount point of a cframefs; its frames are in BACKING");
	return 0;
}
