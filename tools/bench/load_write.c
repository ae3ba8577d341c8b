/* Commands of load.c that write. Their bytes come out of files that are read before. */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct source {
	char *p;
	size_t n;
};

static void write_all(int fd, const char *p, size_t n, const char *name)
{
	while (n) {
		ssize_t k = write(fd, p, n);

		if (k < 0)
			die(name);
		p += k;
		n -= (size_t)k;
	}
}

static struct source slurp(const char *name)
{
	int fd = open_file(name, O_RDONLY);
	struct source s = { .n = size_of(fd, name) };
	size_t have = 0;

	s.p = buffer(s.n ? s.n : 1);
	while (have < s.n) {
		ssize_t k = read(fd, s.p + have, s.n - have);

		if (k <= 0)
			die(name);
		have += (size_t)k;
	}
	close(fd);
	return s;
}

static char *path_in(const char *dir, const char *name)
{
	const char *slash = strrchr(name, '/');
	char *path;

	if (asprintf(&path, "%s/%s", dir, slash ? slash + 1 : name) < 0)
		die("memory");
	return path;
}

void run_write(const struct job *j)
{
	struct source *s = calloc((size_t)j->nfiles, sizeof(*s));
	uint64_t bytes = 0;
	double start;

	if (!s)
		die("memory");
	for (int i = 0; i < j->nfiles; i++)
		s[i] = slurp(j->file[i]);
	start = now();
	for (int i = 0; i < j->nfiles; i++) {
		char *path = path_in(j->out, j->file[i]);
		int fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);

		for (size_t at = 0; at < s[i].n; at += j->block)
			write_all(fd, s[i].p + at, s[i].n - at < j->block ? s[i].n - at : j->block,
				  path);
		if (fsync(fd) || close(fd))
			die(path);
		bytes += s[i].n;
		free(path);
	}
	report((uint64_t)j->nfiles, bytes, now() - start);
}

/* The new bytes are a block from elsewhere in the same file: as compressible as the rest of it. */
void run_patch(const struct job *j)
{
	struct source s = slurp(j->file[0]);
	uint64_t blocks = s.n / j->block, seed = j->seed;
	int fd = open_file(j->file[0], O_RDWR);
	double start, took;

	if (!blocks) {
		errno = EINVAL;
		die("file too small");
	}
	start = now();
	for (unsigned long i = 1; i <= j->count; i++) {
		uint64_t from = draw(&seed) % blocks, to = draw(&seed) % blocks;

		if (pwrite(fd, s.p + from * j->block, j->block, (off_t)(to * j->block)) !=
		    (ssize_t)j->block)
			die(j->file[0]);
		if (j->every && i % j->every == 0 && fsync(fd))
			die("fsync");
	}
	if (fsync(fd))
		die("fsync");
	took = now() - start; /* what a close does is not what is measured */
	close(fd);
	report(j->count, (uint64_t)j->count * j->block, took);
}

/* Records of a log, one after the other, out of FILE. */
void run_append(const struct job *j)
{
	struct source s = slurp(j->file[0]);
	char *path = path_in(j->out, "log");
	int made = open_file(path, O_WRONLY | O_CREAT | O_TRUNC); /* one call for both, and */
	int fd = open_file(path, O_WRONLY | O_APPEND);            /* passthrough_ll garbles it */
	double start, took;

	if (s.n <= j->block) {
		errno = EINVAL;
		die("source too small");
	}
	close(made);
	start = now();
	for (unsigned long i = 1; i <= j->count; i++) {
		write_all(fd, s.p + (i * j->block) % (s.n - j->block), j->block, path);
		if (j->every && i % j->every == 0 && fsync(fd))
			die("fsync");
	}
	if (fsync(fd))
		die("fsync");
	took = now() - start;
	close(fd);
	free(path);
	report(j->count, (uint64_t)j->count * j->block, took);
}

void run_small(const struct job *j)
{
	struct source s = slurp(j->file[0]);
	int dir = open_file(j->out, O_RDONLY | O_DIRECTORY);
	char name[32];
	double start;

	if (s.n <= j->block) {
		errno = EINVAL;
		die("source too small");
	}
	start = now();
	for (unsigned long i = 0; i < j->count; i++) {
		int fd;

		snprintf(name, sizeof(name), "small-%06lu", i);
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			die(name);
		write_all(fd, s.p + (i * j->block) % (s.n - j->block), j->block, name);
		if (close(fd))
			die(name);
	}
	if (syncfs(dir))
		die("syncfs");
	report(j->count, (uint64_t)j->count * j->block, now() - start);
}
