/*
 * The loop of a fuzzer that runs without libFuzzer: the files as they are, then with bytes changed
 * at random, until the time is up. When a signal ends the program, the seed of the round is
 * printed; the first round of a run uses the seed that the run was given.
 */
#ifndef TESTS_FUZZ_LOOP_H
#define TESTS_FUZZ_LOOP_H

#include "base/bytes.h"
#include "exact.h"
#include "random.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FUZZ_FILE_MAX (1u << 20)

struct fuzz_target {
	bool (*try)(struct view v);           /* true: the bytes were good */
	void (*change)(uint8_t *p, size_t n); /* of a file, n > 0          */
	const char *good;                     /* what the count of good ones is called */
};

static uint64_t fuzz_round_seed;

static void fuzz_on_signal(int sig)
{
	char text[64];
	int n = snprintf(text, sizeof text, "\nseed %llu\n", (unsigned long long)fuzz_round_seed);
	if (write(2, text, (size_t)n) < 0)
		_exit(3);
	signal(sig, SIG_DFL);
	raise(sig);
}

static struct view fuzz_read_file(const char *name)
{
	static uint8_t bytes[FUZZ_FILE_MAX];
	FILE *f = fopen(name, "rb");
	if (!f) {
		perror(name);
		exit(2);
	}
	size_t n = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	return view_of(exact_copy(bytes, n), n);
}

/* One round: a file, or its beginning, with some bytes changed. */
static bool fuzz_round(const struct fuzz_target *t, struct view from)
{
	size_t n = next_random() % 8 || !from.n ? from.n : next_random() % from.n;
	uint8_t *p = exact_copy(from.p, n);
	if (n)
		t->change(p, n);
	bool good = t->try(view_of(p, n));
	free(p);
	return good;
}

/* argv: SECONDS SEED FILE... */
static int fuzz_loop(const struct fuzz_target *t, int argc, char **argv)
{
	if (argc < 3)
		return 2;
	fuzz_round_seed = strtoull(argv[1], NULL, 10);
	signal(SIGABRT, fuzz_on_signal);
	signal(SIGSEGV, fuzz_on_signal);
	int nfiles = argc - 2;
	struct view *file = exact((size_t)nfiles * sizeof *file);
	for (int i = 0; i < nfiles; i++)
		file[i] = fuzz_read_file(argv[2 + i]);
	state = fuzz_round_seed | 1;
	unsigned long rounds = 0, good = 0;
	for (int i = 0; i < nfiles; i++)
		good += t->try(file[i]);
	printf("%d files as they are, %lu %s\n", nfiles, good, t->good);
	good = 0;
	time_t end = time(NULL) + atoi(argv[0]);
	for (; time(NULL) < end; rounds++) {
		state = fuzz_round_seed | 1;
		good += fuzz_round(t, file[next_random() % (unsigned)nfiles]);
		fuzz_round_seed = fuzz_round_seed * 6364136223846793005u + 1442695040888963407u;
	}
	printf("%lu rounds, %lu %s\n", rounds, good, t->good);
	for (int i = 0; i < nfiles; i++)
		free((void *)file[i].p);
	free(file);
	return 0;
}

#endif
