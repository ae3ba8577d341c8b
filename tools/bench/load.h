/*
 * What the parts of the load generator share: load.c (the command line), load_read.c, load_write.c.
 * Whatever fails ends the program, with a line that says why.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* The command line, as load.c explains it. */
struct job {
	size_t block; /* bytes */
	unsigned long count, every, passes, warm_mib;
	uint64_t seed;
	int procs, direct, warm;
	const char *out;
	char **file;
	int nfiles;
};

/* One function for each command, and one line of JSON from it. */
void run_read(const struct job *j);
void run_random(const struct job *j);
void run_walk(const struct job *j);
void run_write(const struct job *j);
void run_patch(const struct job *j);
void run_append(const struct job *j);
void run_small(const struct job *j);

/* Prints "load: what: " and the text of errno, and exits with 1. */
void die(const char *what) __attribute__((noreturn));

/* Memory aligned for O_DIRECT, and touched, so that no page fault of ours is timed. */
char *buffer(size_t n);

int open_file(const char *name, int flags);
uint64_t size_of(int fd, const char *name);

/* The result of a command whose single operations are not timed. */
void report(uint64_t ops, uint64_t bytes, double seconds);

/* Seconds of CLOCK_MONOTONIC. */
static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The next random number. splitmix64: short, and every seed is a good one. */
static inline uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
