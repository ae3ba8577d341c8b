/* Pseudo-random numbers: the same for the same seed. The state is never 0. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static uint64_t state;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545F4914F6CDD1Du >> 16;
}

/* By the bytes alone: all that is random in a fuzzer's round must depend on its input. */
static inline void seed_by(const uint8_t *p, size_t n)
{
	state = 1 + n;
	for (size_t i = 0; i < n && i < 64; i++)
		state = (state ^ p[i]) * 0x100000001B3u;
	state |= 1;
}

#endif
