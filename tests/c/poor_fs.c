/*
 * A poor file system: SOURCE, shown at MOUNTPOINT without hard links, extended attributes, renames
 * with flags, setting just one of the times, the number of blocks of a file, and permanent inode
 * numbers: libfuse numbers files as they are looked up. Like FAT and NTFS, it may have names of
 * more than 255 bytes: whatever is called "long" gets one.
 *
 * With the further argument "links", it has hard links and the inode numbers of SOURCE. But for
 * libfuse each name is a file of its own, and a file that was opened by one of its names fails once
 * that name is gone.
 *
 * With "locks", owners can be set, and file locks are those of SOURCE: two such mounts of one
 * directory are to their users what a network file system is to two machines.
 *
 * With "slow", opening a file takes a while, as if a disk or a network had to be waited for. At its
 * end it prints how many files were being opened at the same time.
 */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define TOO_LONG 900

static int source;
static bool links, slow;
static _Atomic unsigned opening, opened_at_a_time;
static char too_long[TOO_LONG + sizeof ".b2frame"]; /* "x", as often as there is room */

static int result(long rc)
{
	return rc < 0 ? -errno : (int)rc;
}

static const char *relative(const char *path)
{
	return strcmp(path + 1, too_long) == 0 ? "long" : path[1] ? path + 1 : ".";
}

static int poor_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	int rc = result(fi ? fstat((int)fi->fh, st)
			   : fstatat(source, relative(path), st, AT_SYMLINK_NOFOLLOW));

	if (rc == 0)
		st->st_blocks = 0;
	return rc;
}

static int poor_readdir(const char *path, void *out, fuse_fill_dir_t fill, off_t at,
			struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	struct dirent *d;
	DIR *dir = fdopendir(openat(source, relative(path), O_RDONLY | O_DIRECTORY));

	(void)at, (void)fi, (void)flags;
	if (!dir)
		return -errno;
	while ((d = readdir(dir)))
		fill(out, strcmp(d->d_name, "long") == 0 ? too_long : d->d_name, NULL, 0, 0);
	closedir(dir);
	return 0;
}

static int poor_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	int fd = openat(source, relative(path), fi->flags | O_CREAT, mode);

	fi->fh = (uint64_t)fd;
	return fd < 0 ? -errno : 0;
}

static void wait_as_for_a_disk(void)
{
	unsigned now = ++opening, most = opened_at_a_time;

	while (now > most && !atomic_compare_exchange_weak(&opened_at_a_time, &most, now))
		continue;
	nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	opening--;
}

static int poor_open(const char *path, struct fuse_file_info *fi)
{
	if (slow)
		wait_as_for_a_disk();
	return poor_create(path, 0, fi);
}

static int poor_read(const char *path, char *p, size_t n, off_t at, struct fuse_file_info *fi)
{
	(void)path;
	return result(pread((int)fi->fh, p, n, at));
}

static int poor_write(const char *path, const char *p, size_t n, off_t at,
		      struct fuse_file_info *fi)
{
	(void)path;
	return result(pwrite((int)fi->fh, p, n, at));
}

static int poor_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	int fd = fi ? (int)fi->fh : openat(source, relative(path), O_WRONLY);
	int rc = result(ftruncate(fd, size));

	if (!fi)
		close(fd);
	return rc;
}

static int poor_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
	(void)path, (void)data_only;
	return result(fsync((int)fi->fh));
}

static int poor_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	return result(close((int)fi->fh));
}

static int poor_unlink(const char *path)
{
	return result(unlinkat(source, relative(path), 0));
}

static int poor_mkdir(const char *path, mode_t mode)
{
	return result(mkdirat(source, relative(path), mode));
}

static int poor_rmdir(const char *path)
{
	return result(unlinkat(source, relative(path), AT_REMOVEDIR));
}

static int poor_rename(const char *from, const char *to, unsigned flags)
{
	return flags ? -EINVAL
		     : result(renameat(source, relative(from), source, relative(to)));
}

static int poor_link(const char *from, const char *to)
{
	return links ? result(linkat(source, relative(from), source, relative(to), 0)) : -ENOSYS;
}

static int poor_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fchmodat(source, relative(path), mode, 0));
}

/* As with libfuse 2: setting just one time is ignored. */
static int poor_utimens(const char *path, const struct timespec t[2], struct fuse_file_info *fi)
{
	(void)fi;
	if (t[0].tv_nsec == UTIME_OMIT || t[1].tv_nsec == UTIME_OMIT)
		return 0;
	return result(utimensat(source, relative(path), t, 0));
}

static int poor_statfs(const char *path, struct statvfs *vfs)
{
	(void)path;
	return result(fstatvfs(source, vfs));
}

static void *poor_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	(void)conn;
	config->use_ino = links;
	return NULL;
}

static int poor_flock(const char *path, struct fuse_file_info *fi, int op)
{
	(void)path;
	return result(flock((int)fi->fh, op));
}

static int poor_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fchownat(source, relative(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static struct fuse_operations operations = {
	.init = poor_init, .link = poor_link,
	.getattr = poor_getattr, .readdir = poor_readdir, .create = poor_create,
	.open = poor_open, .read = poor_read, .write = poor_write, .truncate = poor_truncate,
	.fsync = poor_fsync, .release = poor_release, .unlink = poor_unlink,
	.mkdir = poor_mkdir, .rmdir = poor_rmdir, .rename = poor_rename, .chmod = poor_chmod,
	.utimens = poor_utimens, .statfs = poor_statfs,
};

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4)
		return 2;
	links = argc == 4 && strcmp(argv[3], "links") == 0;
	slow = argc == 4 && strcmp(argv[3], "slow") == 0;
	bool locks = argc == 4 && strcmp(argv[3], "locks") == 0;
	operations.flock = locks ? poor_flock : NULL;
	operations.chown = locks ? poor_chown : NULL;
	memset(too_long, 'x', TOO_LONG);
	strcpy(too_long + TOO_LONG, ".b2frame");
	source = open(argv[1], O_RDONLY | O_DIRECTORY);
	char *args[] = {argv[0], argv[2], "-f", slow ? NULL : "-s", NULL};
	int rc = source < 0 ? 1 : fuse_main(slow ? 3 : 4, args, &operations, NULL);
	if (slow)
		printf("%u\n", opened_at_a_time);
	return rc;
}
