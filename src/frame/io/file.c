#include "frame/io/io.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/fd.h"
#include "frame/meters.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

struct io_file {
	struct io io;
	int fd;
	bool owned, draft;
	_Atomic uint64_t mount, changed; /* 0: not known, or not yet */
};

#ifndef STATX_MNT_ID_UNIQUE /* Linux 6.8 */
#define STATX_MNT_ID_UNIQUE 0x4000u
#endif

static struct io_file *file_of(struct io *io)
{
	return CONTAINER_OF(io, struct io_file, io);
}

static int fd_of(struct io *io)
{
	return file_of(io)->fd;
}

static int file_pread(struct io *io, uint64_t at, struct span dst)
{
	meter_add(METER_DISK_READS, 1);
	meter_add(METER_DISK_READ_BYTES, dst.n);
	return fd_pread(fd_of(io), at, dst);
}

static ssize_t file_pread_start(struct io *io, struct span dst)
{
	unsigned interrupted = 0;
	ssize_t got;
	while ((got = pread(fd_of(io), dst.p, dst.n, 0)) < 0)
		TRY(fd_judge_read(&interrupted));
	meter_add(METER_DISK_READS, 1);
	meter_add(METER_DISK_READ_BYTES, (uint64_t)got);
	return got;
}

static int file_pwrite(struct io *io, uint64_t at, struct view src)
{
	meter_add(METER_DISK_WRITES, 1);
	meter_add(METER_DISK_WRITTEN_BYTES, src.n);
	return fd_pwrite(fd_of(io), at, src);
}

static int file_sync(struct io *io)
{
	unsigned interrupted = 0;
	if (file_of(io)->draft)
		return 0;
	meter_add(METER_DISK_SYNCS, 1);
	while (fdatasync(fd_of(io)) < 0)
		TRY(fd_judge(&interrupted));
	return 0;
}

/* Times that do not fit 64 bits of nanoseconds, or before 1970, count as unknown. */
static uint64_t time_of(struct statx_timestamp t)
{
	bool fits = t.tv_sec >= 0 && (uint64_t)t.tv_sec < UINT64_MAX / CLOCK_SECOND;
	return fits ? (uint64_t)t.tv_sec * CLOCK_SECOND + t.tv_nsec : 0;
}

/* One call gets it all; the mount of an open file never changes. */
static int file_size(struct io *io, uint64_t *size)
{
	unsigned want = STATX_SIZE | STATX_CTIME | STATX_MNT_ID | STATX_MNT_ID_UNIQUE;
	struct io_file *f = file_of(io);
	struct stat st;
	struct statx x;
	if (statx(f->fd, "", AT_EMPTY_PATH, want, &x) == 0) {
		if (x.stx_mask & (STATX_MNT_ID | STATX_MNT_ID_UNIQUE))
			f->mount = x.stx_mnt_id;
		if (x.stx_mask & STATX_CTIME)
			f->changed = time_of(x.stx_ctime);
		*size = x.stx_size;
		return 0;
	}
	if (fstat(fd_of(io), &st) < 0) /* not every sandbox allows statx */
		return -errno;
	*size = (uint64_t)st.st_size;
	return 0;
}

static int file_truncate(struct io *io, uint64_t size)
{
	unsigned interrupted = 0;
	while (ftruncate(fd_of(io), (off_t)size) < 0)
		TRY(fd_judge(&interrupted));
	return 0;
}

static int fallocate_all(struct io *io, int how, uint64_t at, uint64_t len)
{
	unsigned interrupted = 0;
	while (fallocate(fd_of(io), how, (off_t)at, (off_t)len) < 0)
		TRY(fd_judge(&interrupted));
	return 0;
}

static int file_punch(struct io *io, uint64_t at, uint64_t len)
{
	return fallocate_all(io, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len);
}

#define CIFS_TYPE 0xFF534D42u /* statfs(2), f_type */
#define SMB2_TYPE 0xFE534D42u

/*
 * Not over SMB, which cannot do it: there Linux writes zeros within the file where it believes that
 * the server has nothing, and another thread may be writing.
 */
static int file_reserve(struct io *io, uint64_t at, uint64_t len)
{
	struct statfs st;

	if (fstatfs(fd_of(io), &st) < 0 || (uint32_t)st.f_type == CIFS_TYPE ||
	    (uint32_t)st.f_type == SMB2_TYPE)
		return -EOPNOTSUPP;
	return fallocate_all(io, FALLOC_FL_KEEP_SIZE, at, len);
}

static uint64_t file_mount(struct io *io)
{
	uint64_t mount = file_of(io)->mount, size;
	if (!mount && file_size(io, &size) == 0)
		mount = file_of(io)->mount;
	return mount;
}

static uint64_t file_next_data(struct io *io, uint64_t at)
{
	off_t data = lseek(fd_of(io), (off_t)at, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? UINT64_MAX : at;
	return (uint64_t)data;
}

/* No blocks: some file systems do not report them. A frame takes at least one. */
static uint64_t file_taken(struct io *io)
{
	struct stat st;
	if (fstat(fd_of(io), &st) < 0 || !st.st_blocks)
		return UINT64_MAX;
	return (uint64_t)st.st_blocks * 512;
}

/* No blocks at all: some file systems do not tell. */
static uint64_t file_room(struct io *io)
{
	struct statvfs st;
	if (fstatvfs(fd_of(io), &st) < 0 || !st.f_blocks)
		return UINT64_MAX;
	return (uint64_t)st.f_bavail * st.f_frsize;
}

static uint64_t file_changed(struct io *io)
{
	uint64_t changed = file_of(io)->changed, size;
	if (!changed && file_size(io, &size) == 0)
		changed = file_of(io)->changed;
	return changed;
}

static void file_close(struct io *io)
{
	struct io_file *f = file_of(io);
	if (f->owned)
		close(f->fd);
	mem_free(f);
}

static const struct io_ops file_ops = {
	.pread = file_pread,
	.pread_start = file_pread_start,
	.pwrite = file_pwrite,
	.sync = file_sync,
	.size = file_size,
	.truncate = file_truncate,
	.punch = file_punch,
	.mount = file_mount,
	.next_data = file_next_data,
	.taken = file_taken,
	.room = file_room,
	.reserve = file_reserve,
	.changed = file_changed,
	.close = file_close,
};

int io_file_open(struct io **io, int fd)
{
	assert(fd >= 0);
	struct io_file *f = mem_zalloc(sizeof *f);
	if (!f)
		return -ENOMEM;
	f->io.ops = &file_ops;
	f->fd = fd;
	*io = &f->io;
	return 0;
}

int io_file_open_take(struct io **io, int fd)
{
	int rc = io_file_open(io, fd);
	if (rc < 0)
		close(fd);
	else
		file_of(*io)->owned = true;
	return rc;
}

int io_file_open_draft(struct io **io, int fd)
{
	TRY(io_file_open(io, fd));
	file_of(*io)->draft = true;
	return 0;
}
