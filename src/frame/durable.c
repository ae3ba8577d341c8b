#include "frame/durable.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "frame/era.h"
#include "frame/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define RANGE 16
#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define VALUE_MOST (DURABLE_HEAD + ERA_RANGES * RANGE)

static uint64_t mount_of(int fd)
{
	struct io *io;
	if (io_file_open(&io, fd) < 0)
		return 0;
	uint64_t mount = io_mount(io);
	io_close(io);
	return mount;
}

bool durable_init(struct durable *d, int fd)
{
	struct statx x;
	*d = (struct durable){.fd = fd, .mount = mount_of(fd)};
	if (!d->mount || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &x) < 0 ||
	    !(x.stx_mask & STATX_BTIME))
		return false;
	uint64_t birth = (uint64_t)x.stx_btime.tv_sec * CLOCK_SECOND + x.stx_btime.tv_nsec;
	put_le64(d->head, x.stx_ino);
	put_le64(d->head + 8, birth);
	return birth != 0;
}

/* Ignores values that are not ours, and those copied from another directory. */
void durable_load(const struct durable *d)
{
	uint8_t value[VALUE_MOST];
	struct era_range range[ERA_RANGES];
	unsigned nranges = 0;
	ssize_t n = fgetxattr(d->fd, DURABLE_ATTRIBUTE, value, sizeof value);
	if (n < DURABLE_HEAD || n % RANGE || memcmp(value, d->head, DURABLE_HEAD) != 0)
		return;
	for (const uint8_t *p = value + DURABLE_HEAD; p < value + n; p += RANGE)
		range[nranges++] = (struct era_range){get_le64(p), get_le64(p + 8)};
	era_load(d->mount, range, nranges);
}

/*
 * The newest ranges, if there is no room for all: ext4 has one block for all attributes of a
 * directory. The value becomes durable like any other change of a directory, and never before the
 * roots that it is about.
 */
void durable_store(const struct durable *d)
{
	uint8_t value[VALUE_MOST];
	struct era_range range[ERA_RANGES];
	unsigned n = era_ranges(range);
	int rc = -1;
	memcpy(value, d->head, DURABLE_HEAD);
	for (unsigned first = 0; rc < 0 && first < n; first += (n - first + 1) / 2) {
		uint8_t *p = value + DURABLE_HEAD;
		for (unsigned i = first; i < n; i++, p += RANGE) {
			put_le64(p, range[i].from);
			put_le64(p + 8, range[i].to);
		}
		rc = fsetxattr(d->fd, DURABLE_ATTRIBUTE, value, (size_t)(p - value), 0);
		if (rc < 0 && errno != ENOSPC)
			break;
	}
	if (rc < 0 && n)
		log_debug(DURABLE_ATTRIBUTE ": %m");
}

/* If that is not known either, the way up would have no end. */
static bool may_be_same(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) < 0 || fstat(b, &y) < 0 ||
	       (x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

static int open_above(int fd)
{
	int above = openat(fd, "..", DIRECTORY);
	if (above < 0 || !may_be_same(fd, above))
		return above;
	close(above);
	return -1;
}

static void load(int fd)
{
	struct durable d;
	if (durable_init(&d, fd))
		durable_load(&d);
}

/* Only root and the owner of the files are believed: others might store anything. */
static void load_of_owner(int fd, uid_t owner)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && (st.st_uid == owner || st.st_uid == 0))
		load(fd);
}

void durable_load_above(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return;
	for (int at = open_above(fd), next; at >= 0; at = next) {
		load_of_owner(at, st.st_uid);
		next = open_above(at);
		close(at);
	}
}

void durable_load_below(int fd)
{
	load_of_owner(fd, geteuid());
}

void durable_load_for(const char *path)
{
	char file[PATH_MAX];
	int fd = open(path, DIRECTORY);
	if (fd < 0 && strlen(path) < sizeof file) {
		if (!realpath(path, file)) /* a name that only a mount shows */
			strcpy(file, path);
		fd = open(dirname(file), DIRECTORY);
	}
	if (fd < 0)
		return;
	durable_load_above(fd);
	load(fd);
	close(fd);
}
