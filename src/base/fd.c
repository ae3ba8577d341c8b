#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The most per system call: Linux stops a little short of 2 GiB anyway. */
#define STEP_MAX (1u << 30)

/* At most this many retries: a call that is interrupted more often is broken. */
#define INTERRUPTED_MOST 1000

int fd_judge(unsigned *interrupted)
{
	if (errno == EBADMSG) /* by which a disk's file system tells of its own checksums */
		return -EIO;
	if (errno != EINTR)
		return -errno;
	return ++*interrupted < INTERRUPTED_MOST ? 0 : -EIO;
}

int fd_judge_read(unsigned *interrupted)
{
	int rc = fd_judge(interrupted);
	return rc == -ENOTSUP || rc == -E2BIG ? -EIO : rc;
}

int fd_pread(int fd, uint64_t at, struct span dst)
{
	unsigned interrupted = 0;
	size_t done = 0;
	while (done < dst.n) {
		size_t step = min_u64(dst.n - done, STEP_MAX);
		ssize_t got = pread(fd, dst.p + done, step, (off_t)(at + done));
		if (got == 0)
			return CORRUPT("file ends too early", at + done);
		if (got < 0)
			TRY(fd_judge_read(&interrupted));
		done += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

int fd_pwrite(int fd, uint64_t at, struct view src)
{
	unsigned interrupted = 0;
	size_t done = 0;
	while (done < src.n) {
		size_t step = min_u64(src.n - done, STEP_MAX);
		ssize_t put = pwrite(fd, src.p + done, step, (off_t)(at + done));
		if (put == 0)
			return -EIO;
		if (put < 0)
			TRY(fd_judge(&interrupted));
		done += put > 0 ? (size_t)put : 0;
	}
	return 0;
}

DIR *fd_opendir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd); /* leaves errno as it is */
	return dir;
}

ssize_t fd_getxattr(int fd, const char *name, struct span value)
{
	char path[FD_PATH_MAX];
	ssize_t n = fgetxattr(fd, name, value.p, value.n);

	if (n < 0 && errno == EBADF) { /* O_PATH. The path takes three times as long */
		fd_proc_path(fd, path);
		n = getxattr(path, name, value.p, value.n);
	}
	return n < 0 ? -errno : n;
}

void fd_proc_path(int fd, char out[static FD_PATH_MAX])
{
	snprintf(out, FD_PATH_MAX, "/proc/self/fd/%d", fd);
}

void fd_open_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}
