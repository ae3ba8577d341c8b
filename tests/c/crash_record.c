/*
 * Preloaded into the daemon: records each change of the backing directory, with its bytes and in
 * order, in the file named by CRASH_RECORD (crash_trace.h). Nothing is really synced: crash_replay
 * decides what a sync keeps.
 */
#include "crash_trace.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int trace = -1;
/* held from before a call until it has been recorded */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("CRASH_RECORD");

	if (path)
		trace = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	unsetenv("CRASH_RECORD"); /* programs that the daemon runs are left alone */
	unsetenv("LD_PRELOAD");
}

/* In one write, so that marks by the test never land inside it. */
static void put(struct crash_record r, const void *bytes)
{
	struct iovec iov[] = {{&r, sizeof r}, {(void *)(uintptr_t)bytes, r.len}};

	if (writev(trace, iov, 2) != (ssize_t)(sizeof r + r.len))
		abort();
}

static bool is_file(int fd, uint64_t *ino)
{
	struct stat st;

	if (trace < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*ino = st.st_ino;
	return true;
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
	uint64_t ino;

	if (!is_file(fd, &ino))
		return REAL(pwrite64)(fd, p, n, at);
	pthread_mutex_lock(&lock);
	ssize_t rc = REAL(pwrite64)(fd, p, n, at);
	if (rc > 0)
		put((struct crash_record){CRASH_WRITE, ino, (uint64_t)at, (uint64_t)rc}, p);
	pthread_mutex_unlock(&lock);
	return rc;
}

int ftruncate64(int fd, off_t size)
{
	uint64_t ino;

	if (!is_file(fd, &ino))
		return REAL(ftruncate64)(fd, size);
	pthread_mutex_lock(&lock);
	int rc = REAL(ftruncate64)(fd, size);
	if (rc == 0)
		put((struct crash_record){CRASH_TRUNCATE, ino, (uint64_t)size, 0}, NULL);
	pthread_mutex_unlock(&lock);
	return rc;
}

int fallocate64(int fd, int mode, off_t at, off_t len)
{
	uint64_t ino;

	if (!is_file(fd, &ino))
		return REAL(fallocate64)(fd, mode, at, len);
	if (mode != 0 && mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		abort(); /* crash_replay does not know these */
	pthread_mutex_lock(&lock);
	int rc = REAL(fallocate64)(fd, mode, at, len);
	uint64_t n = (uint64_t)len;
	if (rc == 0 && mode == 0) /* is used only past the end: the file gets longer */
		put((struct crash_record){CRASH_TRUNCATE, ino, (uint64_t)at + n, 0}, NULL);
	else if (rc == 0)
		put((struct crash_record){CRASH_PUNCH, ino, (uint64_t)at, sizeof n}, &n);
	pthread_mutex_unlock(&lock);
	return rc;
}

static void put_locked(struct crash_record r)
{
	pthread_mutex_lock(&lock);
	if (trace >= 0)
		put(r, NULL);
	pthread_mutex_unlock(&lock);
}

int fdatasync(int fd)
{
	uint64_t ino;

	if (is_file(fd, &ino))
		put_locked((struct crash_record){CRASH_SYNC, ino, 0, 0});
	return 0;
}

int fsync(int fd)
{
	uint64_t ino;

	if (is_file(fd, &ino))
		put_locked((struct crash_record){CRASH_SYNC, ino, 1, 0});
	else
		put_locked((struct crash_record){CRASH_NAMES_SYNC, 0, 0, 0});
	return 0;
}

int syncfs(int fd)
{
	(void)fd;
	put_locked((struct crash_record){CRASH_ALL_SYNC, 0, 0, 0});
	return 0;
}

/* The number of the file of that name, 0 if there is none. *last: it has no other name. */
static uint64_t file_at(int dir, const char *name, bool *last)
{
	struct stat st;

	*last = false;
	if (trace < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	*last = st.st_nlink == 1;
	return st.st_ino;
}

static void put_link(uint64_t ino, uint64_t gone)
{
	if (trace >= 0 && (ino || gone))
		put((struct crash_record){CRASH_LINK, ino, gone, 0}, NULL);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
	bool last;

	pthread_mutex_lock(&lock);
	int rc = REAL(linkat)(a, from, b, to, flags);
	if (rc == 0)
		put_link(file_at(b, to, &last), 0);
	pthread_mutex_unlock(&lock);
	return rc;
}

int unlinkat(int dir, const char *name, int flags)
{
	bool last;

	pthread_mutex_lock(&lock);
	uint64_t ino = file_at(dir, name, &last);
	int rc = REAL(unlinkat)(dir, name, flags);
	if (rc == 0)
		put_link(last ? 0 : ino, last ? ino : 0);
	pthread_mutex_unlock(&lock);
	return rc;
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	bool last, only;

	pthread_mutex_lock(&lock);
	uint64_t old = file_at(b, to, &last), ino = file_at(a, from, &only);
	int rc = REAL(renameat2)(a, from, b, to, flags);
	if (rc == 0)
		put_link(ino, last && old != ino ? old : 0);
	pthread_mutex_unlock(&lock);
	return rc;
}

int openat64(int dir, const char *name, int flags, ...)
{
	mode_t mode = 0;
	uint64_t ino;
	va_list ap;

	if (!(flags & (O_CREAT | __O_TMPFILE)))
		return REAL(openat64)(dir, name, flags);
	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	pthread_mutex_lock(&lock);
	int fd = REAL(openat64)(dir, name, flags, mode);
	if (fd >= 0 && is_file(fd, &ino)) {
		put((struct crash_record){CRASH_CREATE, ino, 0, 0}, NULL);
		if (flags & O_CREAT)
			put_link(ino, 0);
	}
	pthread_mutex_unlock(&lock);
	return fd;
}
