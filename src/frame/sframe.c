/* A sparse frame: a directory with an index file and one file a chunk. FORMAT.md 13. Read only. */
#include "base/fd.h"
#include "frame/frame_impl.h"
#include "frame/names.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a failed open says of the file: a link, socket or device is no part of a frame. */
static int judge_unopened(int dirfd, const char *name, int rc)
{
	struct stat st;

	if (rc == -ENOENT)
		return CORRUPT("file of a sparse frame is missing", 0);
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISREG(st.st_mode))
		return rc;
	return CORRUPT("part of a sparse frame is not a file", st.st_mode);
}

/* O_NONBLOCK: a fifo of that name must not hang us. */
static int open_regular(int dirfd, const char *name, struct io **io)
{
	struct stat st;
	int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return judge_unopened(dirfd, name, -errno);
	int rc = fstat(fd, &st) < 0 ? -errno : 0;
	if (rc == 0 && !S_ISREG(st.st_mode))
		rc = CORRUPT("part of a sparse frame is not a file", st.st_mode);
	if (rc == 0)
		return io_file_open_take(io, fd);
	close(fd);
	return rc;
}

static int open_index(int dirfd, struct io **io)
{
	return open_regular(dirfd, NAMES_SPARSE_INDEX, io);
}

int sframe_open_chunk(int dirfd, uint64_t id, struct io **io)
{
	char name[32];
	snprintf(name, sizeof name, "%08" PRIX64 ".chunk", id);
	return open_regular(dirfd, name, io);
}

int sframe_count_files(int dirfd, uint64_t enough, uint64_t *n)
{
	struct dirent *d;
	DIR *dir = fd_opendir(dirfd, ".");
	if (!dir)
		return -errno;
	*n = 0;
	while (errno = 0, *n < enough && (d = readdir(dir)))
		*n += d->d_name[0] != '.';
	int rc = -errno;
	closedir(dir);
	return rc;
}

int frame_probe_sparse(int dirfd, struct frame_info *info)
{
	struct io *io;
	TRY(open_index(dirfd, &io));
	int rc = frame_read_info(io, FRAME_SPARSE, info);
	io_close(io);
	return rc;
}

static void raise_time(struct timespec *t, struct timespec other)
{
	if (other.tv_sec > t->tv_sec || (other.tv_sec == t->tv_sec && other.tv_nsec > t->tv_nsec))
		*t = other;
}

void frame_stat_sparse(int dirfd, struct stat *st)
{
	struct stat index;

	if (fstatat(dirfd, NAMES_SPARSE_INDEX, &index, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	raise_time(&st->st_mtim, index.st_mtim);
	raise_time(&st->st_ctim, index.st_ctim);
	st->st_size += index.st_size;
}

int frame_open_sparse_take(struct frame **out, int dirfd)
{
	struct io *io;
	struct frame *f;
	int rc = open_index(dirfd, &io);
	if (rc < 0) {
		close(dirfd);
		return rc;
	}
	TRY(frame_new_take(&f, io, dirfd));
	return frame_ready_take(out, f, frame_load(f));
}
