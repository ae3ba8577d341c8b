#include "fs/session/mounted.h"

#include "base/log.h"
#include "fs/backing/claim.h"
#include "fs/ops/ops.h"
#include "fs/session/guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* By default the kernel reads 128 KiB ahead: too few requests at a time for all cores. */
static void set_readahead(struct fs *fs, dev_t dev)
{
	char path[80];

	if (!fs->opt.readahead)
		return;
	snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(dev), minor(dev));
	FILE *out = fopen(path, "w");
	if (!out && fs->backing.is_root)
		log_info("read-ahead stays at the kernel's default: %s: %m", path);
	if (!out) /* unless we are root, this is normal */
		return;
	int n = fprintf(out, "%llu", (unsigned long long)(fs->opt.readahead >> 10));
	bool done = fclose(out) == 0 && n > 0;
	atomic_store(&fs->kernel_reads_ahead, done && fs->opt.readahead >= 2 * fs->opt.max_read);
}

/*
 * Returns the device number of our mount, and sets its id; 0 if Linux does not report ids. Returns
 * 0 if something else is in its place, for example after an immediate unmount.
 */
static dev_t find_mount(const struct fs *fs, uint64_t *id)
{
	struct stat below;
	struct statx st;

	if (statx(AT_FDCWD, fs->opt.mountpoint, 0, STATX_INO | STATX_MNT_ID, &st) < 0 ||
	    fstat(fs->backing.root, &below) < 0)
		return 0;
	/* Linux before 5.8 does not say whether it is a mount's root; then assume so */
	bool top = !(st.stx_attributes_mask & ~st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
	if (!top || st.stx_dev_major != 0 || st.stx_ino != below.st_ino)
		return 0;
	*id = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
	return makedev(st.stx_dev_major, st.stx_dev_minor);
}

/*
 * A device number belongs to one mount at a time: if it is ours both before and after the file was
 * opened, the file belongs to our connection. Holding a descriptor of the mount would prove that as
 * well, but would make an early umount fail.
 */
static void tell_guard(struct fs *fs, dev_t dev)
{
	int control = guard_open(dev);
	uint64_t id;

	if (control < 0)
		return;
	if (find_mount(fs, &id) == dev) {
		guard_give(control);
		fs->guarded = true;
	}
	close(control);
}

void mounted_begin(struct fs *fs)
{
	uint64_t id;

	/*
	 * First: if we are killed while find_mount waits for our answer, only the guard can end
	 * that.
	 */
	fs->guarded = guard_connection(fuse_session_fd(fs->session));
	dev_t dev = find_mount(fs, &id);
	if (!dev)
		return;
	fs->backing.own_mount = id;
	fs->backing.own_dev = dev;
	claim_tell_mount(&fs->backing);
	if (!fs->guarded)
		tell_guard(fs, dev);
	set_readahead(fs, dev);
}
