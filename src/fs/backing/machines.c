#include "fs/backing/machines.h"

#include "base/log.h"
#include "frame/names.h"
#include "fs/backing/backing.h"

#include <ctype.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* FUSE may be one of them, too: GlusterFS, JuiceFS, sshfs. */
static bool is_shared_by_machines(int root)
{
	static const uint32_t known[] = {
		NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, AFS_SUPER_MAGIC, CODA_SUPER_MAGIC,
		V9FS_MAGIC, BACKING_FUSE, 0xFF534D42 /* CIFS */, 0xFE534D42 /* SMB 2 */,
		0x00C36400 /* Ceph */, 0x0BD00BD0 /* Lustre */, 0x47504653 /* GPFS */,
		0x19830326 /* BeeGFS */, 0x7461636F /* OCFS2 */, 0x01161970 /* GFS2 */,
		0x20030528 /* OrangeFS */, 0xAAD7AAEA /* PanFS */,
	};

	return backing_is_on(root, known, sizeof known / sizeof *known);
}

/*
 * Opens the lock file. A reader does not create one: without it there is no writer. Users who may
 * write to the directory may lock it, for which NFS needs a writable descriptor.
 */
static int open_lock(int root, bool shared)
{
	struct stat st;
	int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

	int fd = openat(root, NAMES_MACHINES, (shared ? O_RDONLY : O_RDWR) | flags);
	if (fd >= 0 || errno != ENOENT || shared)
		return fd < 0 ? -errno : fd;
	TRY(stat_fd(root, &st));
	/* O_EXCL: never chown a file that was linked there meanwhile */
	fd = openat(root, NAMES_MACHINES, O_RDWR | O_CREAT | O_EXCL | flags, 0600);
	if (fd < 0 && errno == EEXIST) {
		fd = openat(root, NAMES_MACHINES, O_RDWR | flags);
		return fd < 0 ? -errno : fd;
	}
	if (fd < 0)
		return -errno;
	/* or only its creator could use it */
	IGNORE(fchown(fd, st.st_uid, st.st_gid));
	IGNORE(fchmod(fd, st.st_mode & 0666));
	return fd;
}

/*
 * Anybody who may write to the directory could have written it: accepts only characters of host
 * names.
 */
static void read_name(int fd, char machine[static HOST_NAME_MAX + 1])
{
	ssize_t n = pread(fd, machine, HOST_NAME_MAX, 0), i = 0;

	while (i < n && (isalnum((unsigned char)machine[i]) || strchr("-._", machine[i])))
		i++;
	machine[i] = 0;
}

/* For messages only. Does not write into a file that was linked there. */
static void write_name(int fd)
{
	char machine[HOST_NAME_MAX + 1] = "";
	struct stat st;

	(void)gethostname(machine, sizeof machine - 1);
	if (stat_fd(fd, &st) == 0 && st.st_nlink == 1 && ftruncate(fd, 0) == 0)
		IGNORE(pwrite(fd, machine, strlen(machine), 0));
}

/* 1: it is locked; 0: another machine has it, which SMB reports as EACCES. */
static int try_lock(int fd, bool shared)
{
	struct stat st;

	TRY(stat_fd(fd, &st));
	if (!S_ISREG(st.st_mode))
		return -EEXIST;
	if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
		return 1;
	return errno == EWOULDBLOCK || errno == EACCES || errno == EINTR ? 0 : -errno;
}

int machines_lock(int root, bool shared, int *fd, char machine[static HOST_NAME_MAX + 1])
{
	*fd = -1;
	machine[0] = 0;
	if (!is_shared_by_machines(root))
		return 0;
	int lock = open_lock(root, shared);
	if ((lock == -ENOENT && shared) || lock == -EROFS)
		return 0; /* there is no writer, or not from here */
	int got = lock < 0 ? lock : try_lock(lock, shared);
	if (got == 1) {
		if (!shared)
			write_name(lock);
		*fd = lock;
		return 0;
	}
	if (got == 0)
		read_name(lock, machine);
	else
		log_warn(NAMES_MACHINES ": could not be locked against other machines: %s",
			 strerror(-got));
	if (lock >= 0)
		close(lock);
	return got < 0 ? 0 : -EBUSY;
}
