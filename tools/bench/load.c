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
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

char *buffer(size_t n)
{
	void *p;

	if (posix_memalign(&p, 4096, n))
		die("memory");
	memset(p, 1, n);
	return p;
}

int open_file(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		die(name);
	return fd;
}

uint64_t size_of(int fd, const char *name)
{
	struct stat st;

	if (fstat(fd, &st))
		die(name);
	return (uint64_t)st.st_size;
}

void report(uint64_t ops, uint64_t bytes, double seconds)
{
	printf("{\"ops\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)ops,
	       (unsigned long long)bytes, seconds);
}

static void warm_memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		       -1, 0);

	if (p == MAP_FAILED)
		die("memory");
	munmap(p, n);
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
