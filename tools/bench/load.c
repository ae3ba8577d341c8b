/*
 * Load generator of the bench: one timed loop over plain system calls, so that the
 * generator itself costs next to nothing beside the file system under it.
 *
 *   load read   [-b BLOCK] [-j PROCS] FILE...|DIR
 *       files one after the other, by PROCS processes; of a directory all that are below it
 *   load random [-b BLOCK] [-n COUNT] [-s SEED] [-j PROCS] [-D] [-W] [-r PASSES] FILE...
 *       distinct aligned blocks, drawn over all files; -D with O_DIRECT, -W when they were read
 *       before, -r so many times
 *   load walk   [-b BLOCK] [-n COUNT] [-s SEED] FILE
 *       the same through a mapping, a byte of each
 *   load write  [-b BLOCK] -o DIR FILE...
 *       copies of FILEs, each fsynced and closed
 *   load patch  [-b BLOCK] [-n COUNT] [-s SEED] [-f EVERY] FILE
 *       random overwrites, fsync every EVERY
 *   load append [-b BLOCK] [-n COUNT] [-f EVERY] -o DIR FILE
 *       COUNT records out of FILE to the end of one, fsync every EVERY
 *   load small  [-b BLOCK] [-n COUNT] -o DIR FILE
 *       COUNT new files of BLOCK bytes out of FILE, then syncfs
 *
 * -w MIB touches that much memory first and gives it back: a virtual machine gets a page from its
 * host on first touch, and may lose it again while it is free. That takes longer than any file
 * system here, and would be measured instead.
 *
 * Prints one line of JSON. Files are opened, sources are read and buffers are touched before
 * the clock starts, except where making or opening files is what is measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct job {
	size_t block;
	unsigned long count, every, passes, warm_mib;
	uint64_t seed;
	int procs, direct, warm;
	const char *out;
	char **file;
	int nfiles;
};

struct source {
	char *p;
	size_t n;
};

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* splitmix64: short, and every seed is a good one. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Aligned for O_DIRECT and touched, so that no page fault of ours is timed. */
static char *buffer(size_t n)
{
	void *p;

	if (posix_memalign(&p, 4096, n))
		die("memory");
	memset(p, 1, n);
	return p;
}

static void warm_memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		       -1, 0);

	if (p == MAP_FAILED)
		die("memory");
	munmap(p, n);
}

static int open_file(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		die(name);
	return fd;
}

static uint64_t size_of(int fd, const char *name)
{
	struct stat st;

	if (fstat(fd, &st))
		die(name);
	return (uint64_t)st.st_size;
}

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

static void report(uint64_t ops, uint64_t bytes, double seconds)
{
	printf("{\"ops\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)ops,
	       (unsigned long long)bytes, seconds);
}

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

static void run_read(const struct job *j)
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
static void run_random(const struct job *j)
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
static void run_walk(const struct job *j)
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

static char *path_in(const char *dir, const char *name)
{
	const char *slash = strrchr(name, '/');
	char *path;

	if (asprintf(&path, "%s/%s", dir, slash ? slash + 1 : name) < 0)
		die("memory");
	return path;
}

static void run_write(const struct job *j)
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
static void run_patch(const struct job *j)
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
static void run_append(const struct job *j)
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

static void run_small(const struct job *j)
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

static const struct command {
	const char *name;
	void (*run)(const struct job *);
	int needs_out;
} commands[] = {
	{ "read", run_read, 0 },   { "random", run_random, 0 }, { "walk", run_walk, 0 },
	{ "write", run_write, 1 }, { "patch", run_patch, 0 },   { "small", run_small, 1 },
	{ "append", run_append, 1 },
};

static struct job *listing; /* nftw has no argument of ours */

static int list_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)ftw;
	if (type != FTW_F)
		return 0;
	listing->file = realloc(listing->file, (size_t)(listing->nfiles + 1) * sizeof(char *));
	if (!listing->file || !(listing->file[listing->nfiles++] = strdup(path)))
		die("memory");
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names are found before the clock starts; opening the files is measured. */
static void list_directories(struct job *j)
{
	char **given = j->file;
	int n = j->nfiles;
	struct stat st;

	if (n != 1 || stat(given[0], &st) || !S_ISDIR(st.st_mode))
		return;
	listing = j;
	j->file = NULL;
	j->nfiles = 0;
	if (nftw(given[0], list_one, 16, FTW_PHYS))
		die(given[0]);
	qsort(j->file, (size_t)j->nfiles, sizeof(*j->file), by_name);
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || !n) {
		fprintf(stderr, "load: not a positive number: %s\n", text);
		exit(2);
	}
	return n;
}

static void parse(struct job *j, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "b:n:s:f:j:o:r:w:DW")) != -1) {
		switch (c) {
		case 'b': j->block = number(optarg); break;
		case 'n': j->count = number(optarg); break;
		case 's': j->seed = number(optarg); break;
		case 'f': j->every = number(optarg); break;
		case 'j': j->procs = (int)number(optarg); break;
		case 'r': j->passes = number(optarg); break;
		case 'D': j->direct = 1; break;
		case 'W': j->warm = 1; break;
		case 'w': j->warm_mib = number(optarg); break;
		case 'o': j->out = optarg; break;
		default: exit(2);
		}
	}
	j->file = argv + optind;
	j->nfiles = argc - optind;
}

int main(int argc, char **argv)
{
	struct job j = { .block = 1 << 20, .count = 1000, .seed = 1, .procs = 1, .passes = 1 };

	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		parse(&j, argc - 1, argv + 1);
		if (j.nfiles < 1 || (commands[i].needs_out && !j.out))
			break;
		list_directories(&j);
		if (j.warm_mib)
			warm_memory(j.warm_mib << 20);
		commands[i].run(&j);
		return 0;
	}
	fprintf(stderr,
		"usage: load read|random|walk|write|patch|append|small [OPTIONS] FILE..., as the "
		"comment at the top of load.c says\n");
	return 2;
}
