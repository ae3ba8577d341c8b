/* Commands of load.c that read: files from end to end, or blocks in no order. */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `body` in j->procs processes at once; the seconds until the last of them has ended. */
static double at_once(const struct job *j, void (*body)(const struct job *, int, void *), void *ctx)
{
	int go[2], failed = 0, status;
	double start;
	char c;

	if (pipe(go))
		die("pipe");
	for (int i = 0; i < j->procs; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid > 0)
			continue;
		close(go[1]);
		if (read(go[0], &c, 1) < 0) /* returns when the parent closes its end */
			die("pipe");
		body(j, i, ctx);
		_exit(0);
	}
	start = now();
	close(go[1]);
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		exit(1); /* it has said why */
	return now() - start;
}

/* Zeroed memory that the processes share. */
static void *shared(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE,
		       -1, 0);

	if (p == MAP_FAILED)
		die("memory");
	return p;
}

struct reading {
	int next; /* file that nobody has taken yet */
	uint64_t bytes;
};

static uint64_t read_to_end(const char *name, char *buf, size_t block)
{
	int fd = open_file(name, O_RDONLY);
	uint64_t sum = 0;
	ssize_t n;

	while ((n = read(fd, buf, block)) > 0)
		sum += (uint64_t)n;
	if (n < 0)
		die(name);
	close(fd);
	return sum;
}

/* Whoever is free takes the next file, so that all processes end at about the same time. */
static void read_files(const struct job *j, int number, void *ctx)
{
	struct reading *r = ctx;
	char *buf = buffer(j->block);
	uint64_t mine = 0;

	(void)number;
	for (int f; (f = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED)) < j->nfiles;)
		mine += read_to_end(j->file[f], buf, j->block);
	__atomic_fetch_add(&r->bytes, mine, __ATOMIC_RELAXED);
}

void run_read(const struct job *j)
{
	struct reading *r = shared(sizeof(*r));
	double took = at_once(j, read_files, r);

	report((uint64_t)j->nfiles, r->bytes, took);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct place {
	int fd;
	uint64_t first; /* number of its first block, counted over all files */
};

/* Whole blocks of all files, numbered through; a tail that is no whole block is left out. */
static uint64_t open_places(const struct job *j, struct place *place, int flags)
{
	uint64_t blocks = 0;

	for (int i = 0; i < j->nfiles; i++) {
		place[i].fd = open_file(j->file[i], flags);
		place[i].first = blocks;
		blocks += size_of(place[i].fd, j->file[i]) / j->block;
	}
	return blocks;
}

static void read_block(const struct job *j, const struct place *place, uint64_t n, char *buf)
{
	int i = j->nfiles - 1;

	while (place[i].first > n)
		i--;
	if (pread(place[i].fd, buf, j->block, (off_t)((n - place[i].first) * j->block)) !=
	    (ssize_t)j->block)
		die(j->file[i]);
}

/* j->count distinct numbers below `blocks`, in no order. */
static uint64_t *draw_blocks(const struct job *j, uint64_t blocks)
{
	uint64_t *which = calloc(j->count, sizeof(*which)), seed = j->seed;
	char *seen = calloc(blocks + 1, 1);

	/* keeps the draw short, and the reads cold */
	if (!which || !seen || blocks < 2 * j->count) {
		errno = EINVAL;
		die("files too small for that many distinct blocks");
	}
	for (unsigned long i = 0; i < j->count;) {
		uint64_t n = draw(&seed) % blocks;

		if (seen[n])
			continue;
		seen[n] = 1;
		which[i++] = n;
	}
	free(seen);
	return which;
}

struct drawing {
	struct place *place;
	uint64_t *which;
	double *took; /* shared: one for each read */
};

/* Process `number` reads every procs-th block, in each pass. */
static void read_drawn(const struct job *j, int number, void *ctx)
{
	struct drawing *d = ctx;
	char *buf = buffer(j->block);
	double last = now(), t;

	for (unsigned long i = (unsigned long)number; i < j->count * j->passes;
	     i += (unsigned long)j->procs) {
		read_block(j, d->place, d->which[i % j->count], buf);
		t = now();
		d->took[i] = t - last;
		last = t;
	}
}

static void report_times(double *took, unsigned long n, uint64_t bytes, double all)
{
	qsort(took, n, sizeof(*took), by_value);
	printf("{\"ops\": %lu, \"bytes\": %llu, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": "
	       "%.1f}\n",
	       n, (unsigned long long)bytes, all, took[n / 2] * 1e6, took[n * 99 / 100] * 1e6);
}

/* With -W the blocks have been read once before, untimed. */
void run_random(const struct job *j)
{
	unsigned long n = j->count * j->passes;
	struct drawing d = {calloc((size_t)j->nfiles, sizeof(*d.place)), NULL,
			    shared(n * sizeof(double))};
	char *buf = buffer(j->block);
	double all;

	if (!d.place)
		die("memory");
	d.which = draw_blocks(j, open_places(j, d.place, O_RDONLY | (j->direct ? O_DIRECT : 0)));
	for (unsigned long i = 0; j->warm && i < j->count; i++)
		read_block(j, d.place, d.which[i], buf);
	all = at_once(j, read_drawn, &d);
	report_times(d.took, n, (uint64_t)n * j->block, all);
}

/* One byte of each page, through a mapping: the kernel reads ahead as it likes. */
void run_walk(const struct job *j)
{
	int fd = open_file(j->file[0], O_RDONLY);
	size_t n = size_of(fd, j->file[0]);
	uint64_t *which = draw_blocks(j, n / j->block);
	double *took = calloc(j->count, sizeof(*took)), start, last;
	const char *p;
	volatile char sink;

	if (!took)
		die("memory");
	memset(took, 0, j->count * sizeof(*took));
	start = last = now();
	p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die(j->file[0]);
	for (unsigned long i = 0; i < j->count; i++) {
		double t;

		sink = p[which[i] * j->block];
		t = now();
		took[i] = t - last;
		last = t;
	}
	(void)sink;
	report_times(took, j->count, (uint64_t)j->count * j->block, last - start);
}
